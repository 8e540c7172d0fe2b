package sortietest_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

func TestAnOutageThatIsToComeHurtsNobodyNow(t *testing.T) {
	md := sortietest.NewMetadata(t)
	md.Setenv(t)
	md.Outage(10*time.Minute, 4*time.Minute, sortietest.OnAll, sortietest.MetadataFault{Status: 503})
	if got := os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"); got != md.URL() {
		t.Errorf("AWS clients would ask %q, not %q", got, md.URL())
	}
	resp, err := http.Get(md.ContainerURL())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d before the outage", resp.StatusCode)
	}
}
