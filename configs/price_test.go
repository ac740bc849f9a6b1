package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/reconcile"
)

// configOf reads the valid configuration with something added to its account.
func configOf(t *testing.T, account string) (*Config, error) {
	t.Helper()
	text, err := os.ReadFile("testdata/config/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "    api_key:", account+"    api_key:", 1)
	if changed == string(text) && account != "" {
		t.Fatal("the valid configuration has no such line")
	}
	file := filepath.Join(t.TempDir(), "rollcall.yaml")
	write(t, file, changed, 0o600)
	return Load(file)
}

func TestLimitsAndPricesTellMistakes(t *testing.T) {
	const price = "    prices: [{model: m, input: \"0.20\", output: \"0.80\", currency: USD}"
	for name, tc := range map[string]struct {
		account string
		want    []string
	}{
		"none":               {"    limits: {open_jobs: 0, enqueued_tokens: 0, creates_per_minute: 0}\n", nil},
		"some":               {"    limits: {open_jobs: 7}\n" + price + "]\n", nil},
		"negative":           {"    limits: {open_jobs: -1, creates_per_minute: -2}\n", []string{".limits.open_jobs: must be between 0", ".limits.creates_per_minute: must be between 0"}},
		"a word":             {"    limits: {open_jobs: many}\n", []string{".limits.open_jobs: must be a whole number"}},
		"unknown limit":      {"    limits: {jobs: 1}\n", []string{".limits.jobs: is no known field"}},
		"below an item":      {"    limits: {enqueued_tokens: 10}\n", []string{".limits.enqueued_tokens: is below jobs.max_item_tokens"}},
		"twice":              {price + ", {model: m, input: \"1\", output: \"1\", currency: USD}]\n", []string{".prices[1].model: has its price in prices[0] already"}},
		"incomplete":         {"    prices: [{model: m}]\n", []string{".prices[0].input: is missing", ".prices[0].output: is missing", ".prices[0].currency: must be three capital letters"}},
		"no model":           {"    prices: [{input: 0, output: 0, currency: EUR}]\n", []string{".prices[0].model: is missing"}},
		"an exponent":        {"    prices: [{model: m, input: 1e3, output: \"1\", currency: EUR}]\n", []string{".prices[0].input: must be an amount"}},
		"seven places":       {"    prices: [{model: m, input: \"0.0000001\", output: \"1\", currency: EUR}]\n", []string{".prices[0].input: must be an amount"}},
		"too dear":           {"    prices: [{model: m, input: \"1000001\", output: \"1\", currency: EUR}]\n", []string{".prices[0].input: must be at most 1000000.00"}},
		"a symbol":           {"    prices: [{model: m, input: \"1\", output: \"1\", currency: €}]\n", []string{".prices[0].currency: must be three capital letters"}},
		"unknown price part": {"    prices: [{model: m, input: \"1\", output: \"1\", currency: EUR, cached: \"1\"}]\n", []string{"prices[0].cached: is no known field"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configOf(t, tc.account)
			if tc.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("was accepted")
			}
			if n := strings.Count(err.Error(), "\n") + 1; n != len(tc.want) {
				t.Errorf("told %d mistakes, want %d: %v", n, len(tc.want), err)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("not told: %s\ntold: %v", w, err)
				}
			}
		})
	}
}

// What is left out has a default, and 0 is none.
func TestAccountLimits(t *testing.T) {
	for account, want := range map[string]reconcile.AccountLimits{
		"": {OpenJobs: 100, EnqueuedTokens: 2_000_000, CreatesPerMinute: 30},
		"    limits: {open_jobs: 0, creates_per_minute: 5}\n": {EnqueuedTokens: 2_000_000, CreatesPerMinute: 5},
	} {
		c, err := configOf(t, account)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.AccountLimits(c.Accounts[0].Name); got != want {
			t.Errorf("%q: %+v, want %+v", account, got, want)
		}
	}
	example, err := Load("rollcall.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bare, err := configOf(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := example.AccountLimits(example.Accounts[0].Name), bare.AccountLimits(bare.Accounts[0].Name); got != want {
		t.Errorf("the example has %+v, the defaults are %+v", got, want)
	}
}

func TestPriceIsReadAsItIsWritten(t *testing.T) {
	c, err := configOf(t, "    prices: [{model: m, input: 0.1, output: \"10.000001\", currency: EUR}]\n")
	if err != nil {
		t.Fatal(err)
	}
	name := c.Accounts[0].Name
	if got, ok := c.Price(name, "m"); !ok || got != (reconcile.Price{Input: 100_000, Output: 10_000_001, Currency: "EUR"}) {
		t.Errorf("price %+v, %v", got, ok)
	}
	for _, of := range [][2]string{{name, "other"}, {"other", "m"}, {name, ""}} {
		if got, ok := c.Price(of[0], of[1]); ok {
			t.Errorf("%v has the price %+v", of, got)
		}
	}
}

func TestBudgetOfAPolicyFile(t *testing.T) {
	for budget, want := range map[string]struct {
		budget  reconcile.Budget
		mistake string
	}{
		`budget: none`: {},
		`budget: {per_day: "25.00", currency: EUR}`: {budget: reconcile.Budget{PerDay: 25_000_000, Currency: "EUR"}},
		`budget: {per_day: 0.1, currency: USD}`:     {budget: reconcile.Budget{PerDay: 100_000, Currency: "USD"}},
		``:                                          {mistake: "budget: is missing; write {per_day"},
		`budget:`:                                   {mistake: "budget: is missing; write {per_day"},
		`budget: unlimited`:                         {mistake: "budget: must be {per_day"},
		`budget: 25.00`:                             {mistake: "budget: must be {per_day"},
		`budget: {per_day: "0", currency: EUR}`:     {mistake: "budget.per_day: is 0"},
		`budget: {per_day: "-1", currency: EUR}`:    {mistake: "budget.per_day: must be an amount"},
		`budget: {per_day: "1"}`:                    {mistake: "budget.currency: is missing"},
		`budget: {currency: EUR}`:                   {mistake: "budget.per_day: is missing"},
		`budget: {per_day: "1", currency: eur}`:     {mistake: "budget.currency: must be three capital letters"},
		`budget: {per_day: "1", currency: EUR, per_hour: "1"}`: {mistake: "budget.per_hour: is no known field"},
		`budget: [none]`: {mistake: "budget: must be a mapping"},
	} {
		t.Run(budget, func(t *testing.T) {
			text, err := os.ReadFile("testdata/policy/valid.yaml")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "patient-community.yaml")
			write(t, file, strings.Replace(string(text), "budget: none", budget, 1), 0o600)
			p, err := loadPolicy(file, "classifiers")
			if want.mistake != "" {
				if err == nil || !strings.Contains(err.Error(), want.mistake) || strings.Contains(err.Error(), "\n") {
					t.Errorf("told %v, want %s and no more", err, want.mistake)
				}
				return
			}
			if err != nil || p.Budget != want.budget {
				t.Fatalf("budget %+v, %v", p.Budget, err)
			}
			spec, err := p.Spec()
			if err != nil {
				t.Fatal(err)
			}
			if back, err := reconcile.ParseSpec(spec); err != nil || back.Budget != want.budget {
				t.Errorf("approved as %+v, %v", back.Budget, err)
			}
			if strings.Contains(string(spec), "budget") != (want.budget != reconcile.Budget{}) {
				t.Errorf("approved text: %s", spec) // one without a budget is the same as before there were any
			}
		})
	}
}

func TestCheckPolicyTellsWhyABudgetCannotBeKept(t *testing.T) {
	c := &Config{Accounts: []Account{{Name: "main", Provider: "openai", BaseURL: "https://a.test/v1", Region: "eu", Prices: []Price{{Model: "m", Input: new(Amount), Output: new(Amount), Currency: "EUR"}}}}}
	policy := func(model string, b reconcile.Budget) reconcile.Policy {
		p := reconcile.Policy{ID: "p", Version: 1, Budget: b, Boundary: reconcile.Boundary{Account: "main", Processor: "openai", Host: "a.test", Region: "eu"}}
		p.Classifier.Model = model
		return p
	}
	for name, tc := range map[string]struct {
		p    reconcile.Policy
		want string
	}{
		"priced":               {policy("m", reconcile.Budget{PerDay: 1, Currency: "EUR"}), ""},
		"no budget, no price":  {policy("other", reconcile.Budget{}), ""},
		"budget without price": {policy("other", reconcile.Budget{PerDay: 1, Currency: "EUR"}), `policy p/1: budget: account main has no price of model "other"`},
		"another currency":     {policy("m", reconcile.Budget{PerDay: 1, Currency: "USD"}), "policy p/1: budget.currency: is USD, but account main has the price"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.CheckPolicy(tc.p)
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("told %v, want %q", err, tc.want)
			}
		})
	}
}
