// Package contentsafety speaks Azure AI Content Safety: one text a call, which
// is answered with the severity of its harm in four categories. There are no
// jobs, and inputs are not stored.
//
// It grades how harmful it is to show a text. It has no category for unsafe
// medical advice, for spam or for a breach of privacy: batch.Judge lists the
// labels for these as not assessed, and a clean grade says nothing about them.
package contentsafety

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json"

	"rollcall/batch"
	"rollcall/batch/post"
)

// The categories, as the API spells them in answers and a classifier in its
// thresholds.
const (
	Hate     = "Hate" // harassment and bullying too
	SelfHarm = "SelfHarm"
	Sexual   = "Sexual"
	Violence = "Violence"
)

// MaxSeverity is the highest severity, of eight from 0 on. The documentation
// describes four levels, 0, 2, 4 and 6, each of which stands for itself and the
// next odd one; so an even threshold means the same on both scales.
const MaxSeverity = 7

var categories = []string{Hate, SelfHarm, Sexual, Violence}

// Codes of this adapter, in the place of a provider's code.
const (
	// CodeCategory: the classifier has no thresholds, or one for a category that
	// the API does not have.
	CodeCategory = "threshold_category"
	// CodeScale: a threshold is above MaxSeverity, so that nothing would meet it.
	CodeScale = "threshold_scale"
	// CodeBlocklist: the answer tells of a blocklist, and none was asked for.
	CodeBlocklist = "blocklist_not_asked"
	// CodeEcho: the classifier wants a token back, which a grade cannot hold.
	CodeEcho = "echo_not_possible"
)

// Client is one resource. It may be used by several goroutines.
type Client struct {
	cfg    Config
	key    *batch.Key // nil with tokens
	wire   *post.Client
	query  url.Values
	tokens *tokens // nil with a key
}

var _ batch.Caller = (*Client)(nil)

const processor = "azure-content-safety"

// Account returns the account without a call.
func (c *Client) Account() batch.Account {
	return batch.Account{
		Processor: processor, Name: c.cfg.Name, Host: c.wire.Host(), Region: c.cfg.Region, Fingerprint: c.fingerprint(),
	}
}

// fingerprint is of the host, which is the resource's own and stays when its
// keys change. Behind a regional host only the key tells resources apart.
func (c *Client) fingerprint() string {
	key := ""
	if regional(c.wire.Host()) {
		key = c.key.Current()
	}
	return batch.Fingerprint(c.cfg.FingerprintKey, processor, c.wire.Host(), key)
}

// Capabilities are the documented ones: an input is processed in the region of
// the resource and not stored. Nothing is said about texts on health.
func (c *Client) Capabilities() batch.Capabilities {
	return batch.Capabilities{
		Settlement: batch.SettleByRepeat,
		Classes:    []batch.DataClass{batch.DataSynthetic, batch.DataPersonal, batch.DataUnstored},
	}
}

// Call grades one segment in all categories. Its Content is batch.Scores, with
// the severities that the answer has: one that is missing, or not of the scale,
// is left out and never 0.
func (c *Client) Call(ctx context.Context, cl *batch.Classifier, customID string, segment batch.Text) (batch.Result, error) {
	const op = "call"
	if err := usable(op, cl); err != nil {
		return batch.Result{}, err
	}
	a, err := c.analyze(ctx, op, segment)
	if err != nil {
		return batch.Result{}, err
	}
	r := decode(a.Body)
	r.CustomID = customID
	return r, nil
}

// Probe grades a harmless sentence. It fails unless each category has a severity
// and the classifier can make an answer of it.
func (c *Client) Probe(ctx context.Context, cl *batch.Classifier) error {
	const op = "probe"
	if err := usable(op, cl); err != nil {
		return err
	}
	if batch.CheckThresholds(cl) != nil {
		return &batch.Error{Op: op, Kind: batch.Rejected, Code: batch.CodeThresholds}
	}
	a, err := c.analyze(ctx, op, batch.NewText("The garden behind the house is green after the rain."))
	if err != nil {
		return err
	}
	scores, code := grade(a.Body)
	if code == "" && len(scores) < len(categories) {
		code = batch.CodeCategoryMissing
	}
	if code != "" {
		return a.Error(op, batch.BadAnswer, code)
	}
	return nil
}

// usable refuses a classifier with thresholds that this API's answers never meet.
func usable(op string, cl *batch.Classifier) error {
	refuse := func(code string) error { return &batch.Error{Op: op, Kind: batch.Rejected, Code: code} }
	switch {
	case len(cl.Thresholds) == 0:
		return refuse(CodeCategory)
	case cl.Echo:
		return refuse(CodeEcho)
	}
	for _, t := range cl.Thresholds {
		switch {
		case !slices.Contains(categories, t.Category):
			return refuse(CodeCategory)
		case t.Score > MaxSeverity:
			return refuse(CodeScale)
		}
	}
	return nil
}

// analysis is the request. Blocklists are not asked for: a halt at a hit would
// lose the severities.
type analysis struct {
	Text       string   `json:"text"`
	Categories []string `json:"categories"`
	Halt       bool     `json:"haltOnBlocklistHit"`
	Output     string   `json:"outputType"`
}

// analyze makes the one call, and returns an answer with status 200.
func (c *Client) analyze(ctx context.Context, op string, text batch.Text) (*post.Answer, error) {
	body, err := json.Marshal(analysis{
		Text: post.Valid(text.Reveal()), Categories: categories, Output: "EightSeverityLevels",
	})
	if err != nil {
		panic("contentsafety: a valid text cannot be written as JSON")
	}
	header, tok, err := c.authorize(ctx, op)
	if err != nil {
		return nil, err
	}
	a, err := c.wire.Send(ctx, op, post.Request{
		Path: "/contentsafety/text:analyze", Query: c.query, Header: header, ContentType: "application/json", Body: body,
	})
	if err != nil {
		return nil, err
	}
	if tok != nil && a.Status != http.StatusUnauthorized {
		c.tokens.accepted(tok)
	}
	if a.Status == http.StatusOK {
		return a, nil
	}
	e := a.Fault(op)
	if tok != nil && a.Status == http.StatusUnauthorized {
		e.Kind = c.tokens.refused(tok)
	}
	return nil, e
}

// authorize is the header with the secret, and the token if it is one.
func (c *Client) authorize(ctx context.Context, op string) (http.Header, *token, error) {
	if c.tokens != nil {
		tok, err := c.tokens.get(ctx)
		if err != nil {
			return nil, nil, err
		}
		return http.Header{"Authorization": {"Bearer " + tok.value}}, tok, nil
	}
	if err := c.key.Check(op); err != nil {
		return nil, nil, err
	}
	return http.Header{"Ocp-Apim-Subscription-Key": {c.key.Checked()}}, nil, nil
}
