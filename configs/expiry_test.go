package configs

import (
	"strings"
	"testing"
	"time"
)

// What is asked for is not what every account does: config check says so.
func TestWarningsOfExpiry(t *testing.T) {
	const whatever = ", whatever submit.input_expiry and submit.output_expiry ask for"
	dialect := func(e Expiry, like Like) *OpenAI { return &OpenAI{Dialect: Dialect{Like: like, Expiry: e}} }
	for name, tc := range map[string]struct {
		account       Account
		input, output time.Duration
		want          []string
	}{
		"openai":            {Account{Provider: "openai"}, 3 * day, 7 * day, nil},
		"openai, too long":  {Account{Provider: "openai"}, 3 * day, 40 * day, []string{"account x keeps files for 30d at most; submit.output_expiry asks for 40d"}},
		"openai, too short": {Account{Provider: "openai"}, time.Minute, 7 * day, []string{"account x keeps files for 1h0m0s at least, unless they are deleted before; submit.input_expiry asks for 1m0s"}},
		"azure": {Account{Provider: "azure-openai"}, 3 * day, 7 * day, []string{
			"account x keeps files for 14d at least, unless they are deleted before; submit.input_expiry asks for 3d",
			"account x keeps files for 14d at least, unless they are deleted before; submit.output_expiry asks for 7d"}},
		"azure, long enough": {Account{Provider: "azure-openai"}, 14 * day, 0, nil},
		"azure's own rule":   {Account{Provider: "azure-openai"}, 0, 0, nil},
		"groq":               {Account{Provider: "groq"}, 3 * day, 0, []string{"account x keeps what was sent and the results for 30 days, unless they are deleted before" + whatever}},
		"groq, asked":        {Account{Provider: "groq", OpenAI: dialect(Expiry{Absent: new(false)}, "")}, 3 * day, 7 * day, nil},
		"of its own":         {Account{Provider: "mine", OpenAI: dialect(Expiry{Absent: new(true)}, LikeOpenAI)}, 3 * day, 7 * day, []string{"account x keeps what was sent and the results for a time of its own" + whatever}},
		"of its own, bounded": {Account{Provider: "mine", OpenAI: dialect(Expiry{Min: Duration(5 * day), Max: Duration(6 * day)}, LikeAzure)}, 3 * day, 7 * day, []string{
			"account x keeps files for 5d at least, unless they are deleted before; submit.input_expiry asks for 3d",
			"account x keeps files for 6d at most; submit.output_expiry asks for 7d"}},
		"anthropic":      {Account{Provider: "anthropic"}, 3 * day, 7 * day, []string{"account x keeps what was sent and the results for 29 days from the creation of a job" + whatever}},
		"infrai":         {Account{Provider: "infrai"}, 0, 7 * day, []string{"account x keeps what was sent and the results for a time that it does not document" + whatever}},
		"content safety": {Account{Provider: "azure-content-safety"}, 3 * day, 7 * day, nil},
		"inhouse":        {Account{Provider: "inhouse"}, 3 * day, 7 * day, nil},
		"a sandbox":      {Account{Provider: "anthropic", AllowLoopback: true}, 3 * day, 7 * day, nil},
	} {
		c := Default()
		tc.account.Name = "x"
		c.Accounts, c.Submit.InputExpiry, c.Submit.OutputExpiry = []Account{tc.account}, Duration(tc.input), Duration(tc.output)
		var got []string
		for _, w := range c.Warnings(nil) {
			if text, ok := strings.CutPrefix(w, "accounts[0]: "); ok && strings.HasPrefix(text, "account x keeps") {
				got = append(got, text)
			}
		}
		if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}
}

// Where the key alone tells accounts apart, a project promises nothing.
func TestWarningsOfAProject(t *testing.T) {
	for provider, want := range map[string]string{
		"openai": "", "azure-openai": "",
		"groq":   "accounts[0].project: does not keep the account the same; groq knows it by its key alone, so change the key while no job is open",
		"infrai": "accounts[0].project: does not keep the account the same; infrai knows it by its key alone, so change the key while no job is open",
	} {
		about := func(project string) (out []string) {
			c := Default()
			c.Accounts = []Account{{Name: "x", Provider: provider, Project: project}}
			for _, w := range c.Warnings(nil) {
				if strings.HasPrefix(w, "accounts[0].project:") {
					out = append(out, w)
				}
			}
			return out
		}
		if got := strings.Join(about("main"), "\n"); got != want {
			t.Errorf("%s: %s, want %s", provider, got, want)
		}
		if got := about(""); (len(got) > 0) != (want == "") {
			t.Errorf("%s without a project: %v", provider, got)
		}
	}
}
