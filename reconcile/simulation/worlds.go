package simulation

import "rollcall/batch"

// Processor is what the processor of a world can do: what the passes decide by.
type Processor struct {
	Settles  batch.Settlement
	Handover batch.Handover
}

// String is "settlement/handover", as plans name it.
func (p Processor) String() string { return string(p.Settles) + "/" + string(p.Handover) }

// Processors lists those that there are worlds for, which seeds take in turn. A
// client that declares another combination has nothing proven about it. One that
// settles by a repeat is called text by text.
func Processors() []Processor {
	return []Processor{
		{batch.SettleByListing, batch.HandoverFile},
		{batch.SettleByResults, batch.HandoverInline},
		{batch.SettleByKey, batch.HandoverInline},
		{batch.SettleByRepeat, batch.HandoverInline},
		{batch.SettleByResults, batch.HandoverFile},
		{batch.SettleByOperator, batch.HandoverInline},
	}
}
