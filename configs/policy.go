package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"rollcall/reconcile"
)

// policyFile is a policy as it is written. "unknown" is an accepted answer to
// any question about the boundary: it keeps the policy from being approved.
type policyFile struct {
	Policy     string                  `yaml:"policy"`
	Version    int64                   `yaml:"version"`
	Account    string                  `yaml:"account"`
	Processor  string                  `yaml:"processor"`
	Host       string                  `yaml:"host"`
	Region     string                  `yaml:"region"`
	Terms      termsFile               `yaml:"terms"`
	Classifier string                  `yaml:"classifier"` // a folder's name
	Authority  reconcile.AuthorityRule `yaml:"authority"`
	Attempts   int64                   `yaml:"attempts"`
	Runs       int64                   `yaml:"runs"`
	Review     reviewFile              `yaml:"review"`
	Budget     budgetFile              `yaml:"budget"`
}

type termsFile struct {
	DataClass     string `yaml:"data_class"`
	Retention     string `yaml:"retention"`
	Deletion      string `yaml:"deletion"`
	Subprocessors string `yaml:"subprocessors"`
	Training      string `yaml:"training"`
}

type reviewFile struct {
	Due   Duration          `yaml:"due"`
	OnDue reconcile.DueRule `yaml:"on_due"`
}

// LoadPolicies reads every policy file in dir, with the classifiers that they
// name, sorted by name. A file is one policy in one version: the ledger keeps
// the versions that were approved before. Mistakes in all files are told at
// once, and no policy is returned then.
func LoadPolicies(dir, classifiersDir string) ([]reconcile.Policy, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	var policies []reconcile.Policy
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if ext := filepath.Ext(path); e.IsDir() || ext != ".yaml" && ext != ".yml" {
			continue
		}
		p, err := loadPolicy(path, classifiersDir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		policies = append(policies, p)
	}
	if len(errs) > 0 {
		return nil, errors.Join(distinct(errs)...)
	}
	sort.Slice(policies, func(i, j int) bool { return policies[i].ID < policies[j].ID })
	return policies, nil
}

// distinct takes joined errors apart and drops repeats: two policies may share
// a classifier.
func distinct(errs []error) []error {
	var out []error
	seen := map[string]bool{}
	for _, err := range errs {
		for _, e := range parts(err) {
			if !seen[e.Error()] {
				seen[e.Error()] = true
				out = append(out, e)
			}
		}
	}
	return out
}

// parts are the errors that errors.Join put together, at any depth.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, parts(e)...)
	}
	return out
}

func loadPolicy(path, classifiersDir string) (reconcile.Policy, error) {
	if filepath.Ext(path) == ".yml" { // one ending, or one policy could be in two files
		return reconcile.Policy{}, &FieldError{File: path, Message: "must end with .yaml"}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return reconcile.Policy{}, fmt.Errorf("policy: %w", err)
	}
	var f policyFile
	doc := readDocument(path, data, &f)
	if doc.broken {
		return reconcile.Policy{}, doc.err()
	}
	fail := doc.failOnce()
	if name := strings.TrimSuffix(filepath.Base(path), ".yaml"); f.Policy != name && namePattern.MatchString(f.Policy) {
		fail("policy", "must be the name of the file, without its ending")
	}
	if strings.ContainsAny(f.Host, "/@ ") {
		fail("host", "must be a host name, with :port where the account has one, and nothing else")
	}
	f.Budget.check(fail)
	p := f.policy()
	classifier := f.classifier(classifiersDir, fail)
	if classifier != nil {
		p.Classifier = classifier.asked
	}
	placePolicyErrors(p.Validate(), fail, classifier)
	err = doc.err()
	if classifier != nil {
		err = errors.Join(err, classifier.doc.err())
	}
	if err != nil {
		return reconcile.Policy{}, err
	}
	return p, nil
}

// classifier is nil when the folder that the policy names cannot be opened.
func (f *policyFile) classifier(dir string, fail failFunc) *classifierDir {
	if !namePattern.MatchString(f.Classifier) {
		fail("classifier", "%s: the name of a folder in the classifiers folder", nameRule)
		return nil
	}
	c, err := openClassifier(filepath.Join(dir, f.Classifier), f.Classifier)
	if err != nil {
		fail("classifier", "%v", err)
		return nil
	}
	return c
}

func (f *policyFile) policy() reconcile.Policy {
	return reconcile.Policy{
		ID: f.Policy, Version: f.Version,
		Boundary: reconcile.Boundary{
			Processor: f.Processor, Account: f.Account, Host: strings.ToLower(f.Host), Region: f.Region,
			Terms: reconcile.Terms(f.Terms),
		},
		Authority: f.Authority, Attempts: f.Attempts, Runs: f.Runs,
		Review: reconcile.Review{DueSeconds: int64(f.Review.Due.Std() / time.Second), OnDue: f.Review.OnDue},
		Budget: f.Budget.budget(),
	}
}

// placePolicyErrors puts each mistake that the policy's own rules found where
// it was written. Mistakes in a classifier that could not be opened are told
// already.
func placePolicyErrors(err error, fail failFunc, classifier *classifierDir) {
	if err == nil {
		return
	}
	for _, e := range parts(err) {
		field, message, _ := strings.Cut(e.Error(), ": ")
		if inClassifier, ok := strings.CutPrefix(field, "classifier."); ok {
			if classifier != nil {
				classifier.fail(inClassifier, "%s", message)
			}
			continue
		}
		fail(strings.TrimPrefix(field, "boundary."), "%s", message)
	}
}

// CheckPolicy says where a policy's boundary differs from the account that it
// names, and why its budget could not be kept there. An account that differs is
// never used: its reports are held. Answers that are still unknown are passed over.
func (c *Config) CheckPolicy(p reconcile.Policy) error {
	b := p.Boundary
	if isUnknown(b.Account) {
		return nil
	}
	key := reconcile.PolicyKey{ID: p.ID, Version: p.Version}
	a, ok := c.Account(b.Account)
	if !ok {
		return fmt.Errorf("policy %s: account: the configuration has no account of this name", key)
	}
	var errs []error
	for _, f := range []struct{ field, policy, account string }{
		{"processor", b.Processor, a.Provider}, {"host", b.Host, a.Host()}, {"region", b.Region, a.Region},
	} {
		if !isUnknown(f.policy) && f.policy != f.account {
			errs = append(errs, fmt.Errorf("policy %s: %s: is %q, but account %s has %q; correct the one that is wrong",
				key, f.field, f.policy, a.Name, f.account))
		}
	}
	return errors.Join(append(errs, c.checkBudget(p))...)
}

func isUnknown(answer string) bool {
	return strings.EqualFold(strings.TrimSpace(answer), reconcile.Unknown)
}
