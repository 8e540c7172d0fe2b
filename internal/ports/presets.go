package ports

import "time"

// A Preset is what a provider is known to do. The figures are theirs, at a date; providers change them and advise against
// relying on them.
type Preset struct {
	Name   string
	Ports  int
	Holds  Holds
	Scope  Scope
	Source string // with its date
}

// Linux is the name of the preset that is read from the system.
const Linux = "linux"

// presets is the table. A hold that no provider publishes is said to be assumed.
var presets = [...]Preset{
	{
		// Per node, for pools of up to 50; 512, 256, 128, 64, 32 up to 100, 200, 400, 800, 1,000. The hold after FIN was
		// documented until 2022, and is what the field report saw.
		Name: "azure-lb", Ports: 1024, Scope: PublicIPv4, Holds: Holds{4 * time.Minute, 4 * time.Minute, 15 * time.Second, 4 * time.Minute},
		Source: "as of 2026-09: learn.microsoft.com/azure/load-balancer/load-balancer-outbound-connections, per node, up to 50 nodes; hold as documented until 2022",
	},
	{
		// 64,512 in all for each public IP.
		Name: "azure-natgw", Ports: 50_000, Scope: PublicIPv4, Holds: Holds{65 * time.Second, 65 * time.Second, 16 * time.Second, 30 * time.Second},
		Source: "as of 2026-09: learn.microsoft.com/azure/nat-gateway/nat-gateway-resource, per public IP and destination",
	},
	{
		// Gateways made since the middle of 2026 keep a closed connection for 30 s; all of them do from 2026-09-30.
		Name: "gcp-nat", Ports: 64, Scope: PublicIPv4, Holds: Holds{2 * time.Minute, 2 * time.Minute, 30 * time.Second, 30 * time.Second},
		Source: "as of 2026-09: cloud.google.com/nat/docs/ports-and-addresses, per VM, static minimum; newer gateways keep ports for 30 s",
	},
	{
		// Up to 8 IPs. The hold is not published; an idle connection is reset after 350 s.
		Name: "aws-natgw", Ports: 55_000, Scope: PublicIPv4, Holds: Holds{time.Minute, time.Minute, time.Minute, time.Minute},
		Source: "as of 2026-09: docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-basics.html, per IP and destination; hold assumed",
	},
	{
		// The defaults of the kernel, where it cannot be asked. TIME_WAIT is on the side that closes first.
		Name: Linux, Ports: 28_232, Holds: Holds{Ours: time.Minute},
		Source: "as of 2026-09: docs.kernel.org/networking/ip-sysctl.html, the kernel's defaults",
	},
}

// Presets returns the table.
func Presets() []Preset { return append([]Preset(nil), presets[:]...) }

// Named returns the preset of a name.
func Named(name string) (Preset, bool) {
	for _, p := range presets {
		if p.Name == name {
			return p, true
		}
	}
	return Preset{}, false
}
