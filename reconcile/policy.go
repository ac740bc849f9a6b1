package reconcile

import (
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"rollcall/reconcile/keyring"
)

// Unknown is the answer that keeps a policy from being approved, and so keeps
// its texts from being sent.
const Unknown = "unknown"

// AuthorityRule is which revision's result may stand for a report.
type AuthorityRule string

const (
	// HighestAccepted: only the newest revision's result stands; an older one
	// that arrives after an edit is history at once.
	HighestAccepted AuthorityRule = "highest_accepted"
	// HighestApplied: the newest result that has arrived stands, even while a
	// newer revision is still being extracted.
	HighestApplied AuthorityRule = "highest_applied"
)

// DueRule is what happens to a report at its review due time.
type DueRule string

const (
	// DueUnclassified: a person gets the report as it is.
	DueUnclassified DueRule = "unclassified"
	// DueWait: the report waits on, under a finding.
	DueWait DueRule = "wait"
)

// Policy says where texts of a source may go, in which form, and what is done
// with the answers. It is versioned: any change is a new version that waits
// for approval. Its JSON, with the fields in this order, is the text that is
// approved.
type Policy struct {
	ID         string        `json:"policy"`
	Version    int64         `json:"version"`
	Boundary   Boundary      `json:"boundary"`
	Classifier Classifier    `json:"classifier"`
	Authority  AuthorityRule `json:"authority"`
	Attempts   int64         `json:"attempts"` // answers that may fail before a person takes over
	Runs       int64         `json:"runs"`     // runs that may end without an answer (expired, cancelled) before a person takes over
	Review     Review        `json:"review"`
	Budget     Budget        `json:"budget,omitzero"` // left out for none, so that a text without one stays as it was approved
}

// Boundary is one processor account at one host and region, under stated terms.
type Boundary struct {
	Processor string `json:"processor"`
	Account   string `json:"account"` // the account's name in the configuration
	Host      string `json:"host"`
	Region    string `json:"region"`
	Terms     Terms  `json:"terms"`
}

// Terms are the answers that an approver vouches for. Each is prose, or
// "unknown".
type Terms struct {
	DataClass     string `json:"data_class"`
	Retention     string `json:"retention"`
	Deletion      string `json:"deletion"`
	Subprocessors string `json:"subprocessors"`
	Training      string `json:"training"`
}

// Review says when a person must see a report at the latest.
type Review struct {
	DueSeconds int64   `json:"due_seconds"`
	OnDue      DueRule `json:"on_due"`
}

// Due is the review time as a duration.
func (r Review) Due() time.Duration { return time.Duration(r.DueSeconds) * time.Second }

// PolicyKey names a policy version.
type PolicyKey struct {
	ID      string
	Version int64
}

func (k PolicyKey) String() string { return fmt.Sprintf("%s/%d", k.ID, k.Version) }

// ParsePolicyKey reads what String wrote.
func ParsePolicyKey(s string) (PolicyKey, error) {
	id, version, _ := strings.Cut(s, "/")
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil || id == "" {
		return PolicyKey{}, errors.New("a policy version is named as NAME/VERSION")
	}
	return PolicyKey{id, n}, nil
}

// PolicyState is where a policy version stands.
type PolicyState string

// The states of a policy version.
const (
	PolicyDraft    PolicyState = "draft"
	PolicyApproved PolicyState = "approved"
	PolicyRevoked  PolicyState = "revoked"
)

// PolicyVersion is a policy as the ledger holds it.
type PolicyVersion struct {
	Policy
	BoundaryID string
	State      PolicyState
	SpecMAC    string
}

// Key is the version's name.
func (p *PolicyVersion) Key() PolicyKey { return PolicyKey{p.ID, p.Version} }

// Spec is the text that is approved: every field, in one fixed form.
func (p *Policy) Spec() ([]byte, error) {
	spec, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("policy %s/%d: %w", p.ID, p.Version, err)
	}
	return spec, nil
}

// ParseSpec reads what Spec wrote.
func ParseSpec(spec []byte) (Policy, error) {
	var p Policy
	if err := json.Unmarshal(spec, &p, json.RejectUnknownMembers(true)); err != nil {
		return Policy{}, fmt.Errorf("policy spec in the ledger: %w", err)
	}
	return p, nil
}

// Pending lists the questions whose answer is "unknown", by field. A policy
// with one cannot be approved.
func (p *Policy) Pending() []string {
	var open []string
	for field, answer := range map[string]string{
		"boundary.processor":           p.Boundary.Processor,
		"boundary.account":             p.Boundary.Account,
		"boundary.host":                p.Boundary.Host,
		"boundary.region":              p.Boundary.Region,
		"boundary.terms.data_class":    p.Boundary.Terms.DataClass,
		"boundary.terms.retention":     p.Boundary.Terms.Retention,
		"boundary.terms.deletion":      p.Boundary.Terms.Deletion,
		"boundary.terms.subprocessors": p.Boundary.Terms.Subprocessors,
		"boundary.terms.training":      p.Boundary.Terms.Training,
	} {
		if strings.EqualFold(strings.TrimSpace(answer), Unknown) {
			open = append(open, field)
		}
	}
	sort.Strings(open)
	return open
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// Validate says everything that is wrong with the policy, by field.
func (p *Policy) Validate() error {
	var errs []error
	fail := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	if !namePattern.MatchString(p.ID) {
		fail("policy", "must be a name of lower-case letters, digits and -, at most 63 characters")
	}
	if p.Version < 1 {
		fail("version", "must be 1 or more")
	}
	for field, answer := range map[string]string{
		"boundary.processor": p.Boundary.Processor, "boundary.account": p.Boundary.Account, "boundary.host": p.Boundary.Host,
		"boundary.region": p.Boundary.Region, "boundary.terms.data_class": p.Boundary.Terms.DataClass,
		"boundary.terms.retention": p.Boundary.Terms.Retention, "boundary.terms.deletion": p.Boundary.Terms.Deletion,
		"boundary.terms.subprocessors": p.Boundary.Terms.Subprocessors, "boundary.terms.training": p.Boundary.Terms.Training,
	} {
		if strings.TrimSpace(answer) == "" {
			fail(field, "is missing; write %q if nobody knows yet, which keeps the policy from being approved", Unknown)
		}
	}
	if p.Authority != HighestAccepted && p.Authority != HighestApplied {
		fail("authority", "must be %s or %s", HighestAccepted, HighestApplied)
	}
	if p.Attempts < 1 || p.Attempts > 20 {
		fail("attempts", "must be between 1 and 20")
	}
	if p.Runs < 1 || p.Runs > 100 {
		fail("runs", "must be between 1 and 100")
	}
	if p.Review.DueSeconds < 1 {
		fail("review.due", "must be a positive duration such as 24h")
	}
	if p.Review.OnDue != DueUnclassified && p.Review.OnDue != DueWait {
		fail("review.on_due", "must be %s or %s", DueUnclassified, DueWait)
	}
	p.Budget.validate(fail)
	p.Classifier.validate(fail)
	sort.Slice(errs, func(i, j int) bool { return errs[i].Error() < errs[j].Error() })
	return errors.Join(errs...)
}

// NewPolicyVersion makes a version of a valid policy, ready for approval. The
// boundary's id is a digest of its content, so that equal boundaries of two
// policies are one row and a changed one is another.
func NewPolicyVersion(p Policy, keys *keyring.Ring) (PolicyVersion, error) {
	if err := p.Validate(); err != nil {
		return PolicyVersion{}, err
	}
	spec, err := p.Spec()
	if err != nil {
		return PolicyVersion{}, err
	}
	boundary, err := json.Marshal(p.Boundary, json.Deterministic(true))
	if err != nil {
		return PolicyVersion{}, fmt.Errorf("boundary of policy %s/%d: %w", p.ID, p.Version, err)
	}
	return PolicyVersion{
		Policy:     p,
		BoundaryID: keys.MAC(keyring.Spec, []byte("boundary"), boundary)[:32],
		State:      PolicyDraft,
		SpecMAC:    keys.MAC(keyring.Spec, spec),
	}, nil
}
