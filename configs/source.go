package configs

import "rollcall/reconcile"

// anyName in a source stands for every tenant or system.
const anyName = "*"

// Source says what is done with the reports of a tenant's system.
type Source struct {
	Tenant       string                 `yaml:"tenant"` // "*" for any
	System       string                 `yaml:"system"` // "*" for any
	Policy       string                 `yaml:"policy"`
	SameRevision reconcile.RevisionRule `yaml:"same_revision"`
	Identity     reconcile.IdentityRule `yaml:"identity"`
	DigestOf     []string               `yaml:"digest_of"` // fields of the input, with identity: digest
}

func (s *Source) fillIn() {
	if s.SameRevision == "" {
		s.SameRevision = reconcile.RevisionConflict
	}
	if s.Identity == "" {
		s.Identity = reconcile.IdentityField
	}
}

// SourceFor is the most specific source for a report: a named tenant outweighs
// a named system. False means that nobody said what to do with such a report.
func (c *Config) SourceFor(tenant, system string) (Source, bool) {
	best, found := -1, 0
	for i, s := range c.Sources {
		if weight := s.weight(tenant, system); weight > found {
			best, found = i, weight
		}
	}
	if best < 0 {
		return Source{}, false
	}
	return c.Sources[best], true
}

// weight is 0 when the source is not meant, else more the more it names.
func (s *Source) weight(tenant, system string) int {
	weight := 1
	switch s.Tenant {
	case anyName:
	case tenant:
		weight += 2
	default:
		return 0
	}
	switch s.System {
	case anyName:
	case system:
		weight++
	default:
		return 0
	}
	return weight
}
