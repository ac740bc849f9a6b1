package batch

import "context"

// Caller is an account that answers each text in a call of its own. Nothing
// exists at the processor after a call, so that one whose answer is lost may be
// repeated at the same account: it costs money, and has no other effect. Its
// Settlement is SettleByRepeat, and no job of it can be looked up.
//
// All methods may be used by several goroutines. Every error is an *Error; one
// call is made per Call, and nothing is repeated by the adapter. The kind of an
// error says what it is about:
//
//	Rejected                       this segment; the next one may be taken
//	Denied, NotFound, OutOfCredit  the account, the model or the version of the
//	                               API; no other Call will fare better
//	Temporary, RateLimited         the moment; a lost answer too, because a repeat does no harm
//	BadAnswer                      something answered that is not the processor as configured
//
// UnknownOutcome does not occur.
type Caller interface {
	// Account says which account this is, without a call.
	Account() Account

	// Capabilities say what the processor can do, without a call.
	Capabilities() Capabilities

	// Split cuts a text into the segments that are called one by one; one for
	// most texts, never none. Each is a piece of the text as it stands; they are
	// in its order, and leave out nothing. It is a pure function of its
	// arguments. Rejected, when the processor takes no such text in any form.
	Split(c *Classifier, text Text) ([]Text, error)

	// Call asks about one segment. An answer that is not in the documented shape
	// is no error but a Result of Outcome BadShape.
	Call(ctx context.Context, c *Classifier, customID string, segment Text) (Result, error)

	// Join makes one Result of those of all segments, in their order: Answered
	// only when each of them is, else as the first that is not. It is a pure
	// function of its arguments. Its Content is for Judge, like that of any
	// Result.
	Join(c *Classifier, segments []Result) Result

	// Probe asks, with a made-up text, whether the account answers as the lane
	// needs it. It is called before the first Call of a process, and may be
	// called again. Anything but nil keeps the lane closed.
	Probe(ctx context.Context, c *Classifier) error
}
