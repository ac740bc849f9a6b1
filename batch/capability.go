package batch

import "time"

// Capabilities are what the passes may know about a processor. They decide by
// these, and never by a processor's name. What a processor does not document is
// absent here.
type Capabilities struct {
	// Settlement is how a Create of unknown outcome is settled. An account that
	// settles by listing or results is an Inventory.
	Settlement Settlement
	Handover   Handover
	Limits     Limits
	Deletion   Deletion
	// ResultsFor is how long results can be fetched, from the creation of the
	// job on; 0 when nothing is promised, so that they are fetched at once.
	ResultsFor time.Duration
	// Classes are the kinds of texts that the processor's own documents permit.
	// What an operator has agreed with it beyond them stands in a policy.
	Classes []DataClass
}

// Handover is how a request body reaches a processor.
type Handover string

const (
	// HandoverFile: Upload first; Create names the file.
	HandoverFile Handover = "file"
	// HandoverInline: Create carries the body, and Upload is never called.
	HandoverInline Handover = "inline"
)

// Limits bound one job. Zero means that the processor states none.
type Limits struct {
	Items     int   // request lines in one job
	Bytes     int64 // bytes of the request body
	ItemBytes int   // bytes of one request line
	// KeyWindow is how long a Creation may be repeated under its Key; 0 for an
	// account that does not settle by key.
	KeyWindow time.Duration
}

// Deletion is what a processor deletes when it is asked to.
type Deletion struct {
	Input   bool // the request body, by DeleteFile
	Results bool // the result files, by DeleteFile
	// Job: the job with its requests and results, by DeleteJob of a JobDeleter.
	Job bool
}

// DataClass is a kind of texts, by what a processor must promise to get them.
type DataClass string

const (
	// DataSynthetic: made up, about nobody.
	DataSynthetic DataClass = "synthetic"
	// DataPersonal: about persons, and not about their health.
	DataPersonal DataClass = "personal"
	// DataHealth: about the health of persons.
	DataHealth DataClass = "health"
	// DataUnstored: may be stored nowhere but here, not even for a day.
	DataUnstored DataClass = "unstored"
)
