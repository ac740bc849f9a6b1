package reconcile

// SpendView is what the submissions of a policy come to in one currency, ""
// for those that were sent without a price. A submission belongs to the UTC day
// of its intent.
type SpendView struct {
	Policy   string `json:"policy"` // all its versions
	Currency string `json:"currency"`
	Today    Spend  `json:"today"`
	Total    Spend  `json:"total"`
}

// Spend is a sum over submissions, without those that provably made no job.
type Spend struct {
	Submissions  int64  `json:"submissions"`
	Estimate     Micros `json:"estimate"`      // what they may cost, by the estimate before each was sent
	Cost         Micros `json:"cost"`          // what their items cost, as far as the provider's usage is known
	Counted      Micros `json:"counted"`       // what counts against a budget: the cost of consumed jobs, the estimate of others
	UnknownItems int64  `json:"unknown_items"` // that may have cost something the provider did not tell
}

// CostView is what one submission may take, and what it took.
type CostView struct {
	EstimatedInput *int64  `json:"estimated_input_tokens,omitempty"`
	MaxOutput      *int64  `json:"max_output_tokens,omitempty"`
	Estimate       *Micros `json:"estimate,omitempty"` // none without a price
	Currency       string  `json:"currency,omitempty"`
	InputTokens    int64   `json:"input_tokens"` // by the provider's usage
	OutputTokens   int64   `json:"output_tokens"`
	Cost           *Micros `json:"cost,omitempty"` // so far; none without a price
	UnknownItems   int64   `json:"unknown_items"`
}

// View is the estimate for people.
func (e Estimate) View() CostView {
	v := CostView{EstimatedInput: &e.InputTokens, MaxOutput: &e.OutputTokens}
	if e.Price != nil {
		v.Estimate, v.Currency = &e.Cost, e.Price.Currency
	}
	return v
}
