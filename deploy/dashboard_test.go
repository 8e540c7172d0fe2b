package deploy_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A dashboard is what the tests read of Grafana's format.
type dashboard struct {
	Panels     []panel `json:"panels"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int       `json:"id"`
	Type        string    `json:"type"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Datasource  reference `json:"datasource"`
	GridPos     struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit       string `json:"unit"`
			Thresholds struct {
				Steps []threshold `json:"steps"`
			} `json:"thresholds"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []target `json:"targets"`
}

type reference struct {
	UID string `json:"uid"`
}

type threshold struct {
	Value *float64 `json:"value"` // null is the base
}

type target struct {
	Datasource   reference `json:"datasource"`
	Expr         string    `json:"expr"`
	LegendFormat string    `json:"legendFormat"`
}

type variable struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Definition string `json:"definition"`
	IncludeAll bool   `json:"includeAll"`
	AllValue   string `json:"allValue"`
}

func loadDashboard(t *testing.T) *dashboard {
	t.Helper()
	d := &dashboard{}
	if err := json.Unmarshal([]byte(read(t, "dashboard.json")), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// charts returns the panels that show something.
func (d *dashboard) charts() []panel {
	return slices.DeleteFunc(slices.Clone(d.Panels), func(p panel) bool { return p.Type == "row" })
}

func (d *dashboard) panel(t *testing.T, title string) panel {
	t.Helper()
	i := slices.IndexFunc(d.Panels, func(p panel) bool { return p.Title == title })
	if i < 0 {
		t.Fatalf("no panel %q", title)
	}
	return d.Panels[i]
}

var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

func TestDashboardAsksForWhatThereIs(t *testing.T) {
	j := newJudge(t)
	shown := map[string]bool{}
	for _, p := range loadDashboard(t).charts() {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			query := grafana.Replace(target.Expr)
			names, wrong := j.check(query)
			if len(wrong) > 0 || strings.Contains(query, "$") {
				t.Errorf("panel %q: %s: %v", p.Title, query, wrong)
			}
			for _, name := range names {
				shown[family(name, j.known[name])] = true
			}
			for _, m := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !groups(query, m[1]) {
					t.Errorf("panel %q: the legend shows %s, by which %s does not group", p.Title, m[1], query)
				}
			}
		}
	}
	for name, s := range j.known {
		if base := family(name, s); !shown[base] {
			t.Errorf("no panel shows %s", base)
		}
	}
}

// groups reports whether some grouping of the query keeps the label.
func groups(query, label string) bool {
	for _, m := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(query, -1) {
		if slices.Contains(strings.Split(m[1], ", "), label) {
			return true
		}
	}
	return false
}

func TestPanelsCanBeRead(t *testing.T) {
	const chosen = "${datasource}" // in the variable of that name
	ids, titles := map[int]string{}, map[string]bool{}
	for _, p := range loadDashboard(t).Panels {
		if other, twice := ids[p.ID]; twice || p.ID == 0 {
			t.Errorf("panels %q and %q have the id %d", other, p.Title, p.ID)
		}
		ids[p.ID] = p.Title
		if p.Title == "" {
			t.Errorf("panel %d has no title", p.ID)
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("panel %q has description %q and unit %q", p.Title, p.Description, p.FieldConfig.Defaults.Unit)
		}
		if p.Datasource.UID != chosen {
			t.Errorf("panel %q does not ask the chosen data source", p.Title)
		}
		for _, target := range p.Targets {
			if target.LegendFormat == "" || target.Datasource.UID != chosen {
				t.Errorf("panel %q has a curve with legend %q from %q", p.Title, target.LegendFormat, target.Datasource.UID)
			}
		}
		if titles[p.Title] {
			t.Errorf("two panels are called %q", p.Title)
		}
		titles[p.Title] = true
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	panels := loadDashboard(t).Panels
	for i, p := range panels {
		a := p.GridPos
		if a.W < 1 || a.H < 1 || a.X < 0 || a.X+a.W > 24 {
			t.Errorf("panel %q lies at %+v", p.Title, a)
		}
		for _, other := range panels[:i] {
			b := other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panels %q and %q overlap", p.Title, other.Title)
			}
		}
	}
}

func TestDashboardGoesFromSymptomToReason(t *testing.T) {
	var rows []string
	for _, p := range loadDashboard(t).Panels {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		}
	}
	want := []string{
		"Now", "Golden signals per upstream", "Where time goes", "Retries and hedges", "Connections and ports", "DNS",
		"Credentials", "Inbound and queries_per_second", "Limits and breakers", "Facades and the metrics themselves",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q\nwant %q", rows, want)
	}
}

func TestDashboardVariables(t *testing.T) {
	j := newJudge(t)
	var names []string
	for _, v := range loadDashboard(t).Templating.List {
		names = append(names, v.Name)
		if v.Type != "query" {
			continue
		}
		inside, ok := strings.CutPrefix(v.Definition, "label_values(")
		cut := strings.LastIndex(inside, ", ")
		if !ok || cut < 0 {
			t.Fatalf("variable %s: %s", v.Name, v.Definition)
		}
		name, _, _ := strings.Cut(inside[:cut], "{")
		label := strings.TrimSuffix(inside[cut+2:], ")")
		if s, known := j.known[name]; !known || !s.has(label) {
			t.Errorf("variable %s asks for label %s of %s", v.Name, label, name)
		}
		// ".*" also matches a series without the label: a Prometheus outside Kubernetes sets no namespace.
		if !v.IncludeAll || v.AllValue != ".*" {
			t.Errorf("variable %s leaves out series without its label", v.Name)
		}
	}
	if want := []string{"datasource", "namespace", "job", "upstream"}; !slices.Equal(names, want) {
		t.Errorf("variables %q, want %q", names, want)
	}
}
