package simulation

import (
	stdsql "database/sql"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"rollcall/batch"
	"rollcall/batch/fake"
	"rollcall/reconcile"
)

// oracle keeps books of what really happened, apart from the ledger, and says
// what must not have happened.
type oracle struct {
	w        *world
	breaches []string

	texts    map[string]map[string]bool // by work: what may be sent for it
	offered  map[string]time.Time       // by work: when its report was first sent
	asked    map[string]bool            // by report: a person asked for it
	reports  map[string]*reportBook     // by report id: what has a receipt
	works    map[string]workBook
	jobs     []*jobBook
	byID     map[string]*jobBook
	truth    map[string]map[string]fault // by job and work: what was returned; "" is a good answer
	lostSets map[string]bool             // jobs of which results are gone
	cutSets  map[string]bool             // jobs of which a download was short
	vanished map[string]bool
	expiring bool // the job that ends now ran only in part

	calls    callBooks
	noted    string                // the newest submission that was noted outside of the ledger
	standing map[string]recordBook // by report
	sealed   map[string]int        // by policy pattern: intents committed before a brake was on
	wentBack bool                  // the ledger was replaced by an older copy
	lost     bool                  // and nobody has recovered it yet
	copied   time.Time             // when that copy was made
	revoked  bool                  // policy p/1
	renewed  bool                  // policy p/2 is approved in its place
	reasons  map[reconcile.Reason]int64
	stubborn map[string]fault // by work: what becomes of each try
}

type workBook struct {
	report   string
	revision int64
}

type reportBook struct {
	name         string
	current      int64
	content      map[int64]string // by revision: what has a receipt
	contradicted bool
}

type jobBook struct {
	id, submission, job string
	made                time.Time
	works               []string
	late                bool // by a request that was long on its way
	// stale: its request came when nobody waited for it any more, so that its
	// texts may have gone out again. No rule of ours can keep a network from that.
	stale bool
}

type recordBook struct {
	work     string
	revision int64
	label    string
	evidence string
}

func newOracle(w *world) *oracle {
	return &oracle{
		w: w, texts: map[string]map[string]bool{}, reports: map[string]*reportBook{}, works: map[string]workBook{}, byID: map[string]*jobBook{},
		truth: map[string]map[string]fault{}, lostSets: map[string]bool{}, cutSets: map[string]bool{}, vanished: map[string]bool{},
		standing: map[string]recordBook{}, sealed: map[string]int{}, calls: newCallBooks(), offered: map[string]time.Time{}, asked: map[string]bool{}, reasons: map[reconcile.Reason]int64{}, stubborn: map[string]fault{},
	}
}

func (o *oracle) breach(format string, args ...any) {
	b := fmt.Sprintf(format, args...)
	o.breaches = append(o.breaches, b)
	o.w.note(nil, "BREACH: "+b)
}

// expects tells of a delivery that will come.
func (o *oracle) expects(d delivery) {
	report := o.w.keys.ReportID("acme", d.system, d.id)
	id, _ := policyOf(d.system)
	for version := int64(1); version <= 2; version++ {
		work := o.w.keys.WorkID(report, d.revision, id, version)
		o.works[work] = workBook{report, d.revision}
		if o.texts[work] == nil {
			o.texts[work] = map[string]bool{}
		}
		o.texts[work][d.text] = true
	}
}

// offers tells that a source sends a delivery now.
func (o *oracle) offers(d delivery) {
	report := o.w.keys.ReportID("acme", d.system, d.id)
	id, _ := policyOf(d.system)
	for version := int64(1); version <= 2; version++ {
		work := o.w.keys.WorkID(report, d.revision, id, version)
		if _, again := o.offered[work]; !again {
			o.offered[work] = o.w.now
		}
	}
}

// receipt is what a source was told. It is true at once, and stays true.
func (o *oracle) receipt(d delivery, rc reconcile.Receipt) {
	if want := o.w.keys.ReportID("acme", d.system, d.id); rc.ReportID != want {
		o.breach("the receipt of %s is about another report", d)
	}
	r := o.reports[rc.ReportID]
	if r == nil {
		r = &reportBook{name: d.system + " " + d.id, content: map[int64]string{}}
		o.reports[rc.ReportID] = r
	}
	o.judgeReceipt(d, rc, r)
	if d.revision < r.current {
		o.w.struck[lateRevision]++
	}
	if rc.Verdict != reconcile.Conflict || d.revision > r.current {
		r.current = max(r.current, d.revision)
	}
	if n := o.count("SELECT COUNT(*) FROM revisions WHERE report_id = $1 AND revision = $2", rc.ReportID, d.revision); n != 1 {
		o.breach("%s has a receipt, and the ledger holds %d of it", d, n)
	}
}

// rightAnswer is what a text is to be called, and the words that prove it.
func rightAnswer(text string) (label, evidence string) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	label = []string{"ok", "spam", "harassment", "self_harm", "unsafe_advice"}[h.Sum32()%5]
	if label != "ok" {
		evidence = strings.Fields(text)[2]
	}
	return label, evidence
}

func answer(label, evidence string) []byte {
	if evidence == "" {
		return []byte(`{"label":"` + label + `","evidence":[]}`)
	}
	return []byte(`{"label":"` + label + `","evidence":["` + evidence + `"]}`)
}

// script is what the processor returns for an item.
func (o *oracle) script(it fake.Item) []fake.Line {
	work, _, _ := strings.Cut(it.CustomID, "-")
	if !o.texts[work][it.Text] {
		o.breach("job %s was sent a text that is not the one of work %s", it.JobID, work)
	}
	kind, lines := o.fate(it)
	if o.truth[it.JobID] == nil {
		o.truth[it.JobID] = map[string]fault{}
	}
	o.truth[it.JobID][work] = kind
	return lines
}

// fate draws what becomes of an item.
func (o *oracle) fate(it fake.Item) (fault, []fake.Line) {
	w := o.w
	good := fake.Answered(it.CustomID, answer(rightAnswer(it.Text)))
	wrong := fake.Answered(it.CustomID, answer("spam", strings.Fields(it.Text)[0]))
	if o.expiring && w.rng.IntN(2) == 0 {
		if w.rng.IntN(2) == 0 {
			return itemMissing, []fake.Line{}
		}
		return jobExpired, []fake.Line{fake.Failed(it.CustomID, batch.Expired, "batch_expired")}
	}
	work, _, _ := strings.Cut(it.CustomID, "-")
	if o.stubborn[work] == "" && w.strikes(itemStubborn, it.CustomID) {
		o.stubborn[work] = []fault{itemFailed, itemTruncated, itemInvalid}[w.rng.IntN(3)]
	}
	for _, f := range []struct {
		kind  fault
		lines []fake.Line
	}{
		{itemMissing, []fake.Line{}},
		{itemFailed, []fake.Line{fake.Failed(it.CustomID, batch.ItemFailed, "server_error")}},
		{itemRefused, []fake.Line{fake.Failed(it.CustomID, batch.Refused, "")}},
		{itemTruncated, []fake.Line{fake.Failed(it.CustomID, batch.Truncated, "length")}},
		{itemMalformed, []fake.Line{{Channel: batch.ChannelOutput, Raw: []byte(`{"custom_id":` + it.CustomID)}}},
		{itemInvalid, []fake.Line{fake.Answered(it.CustomID, []byte(`{"label":"fine","evidence":[]}`))}},
		{itemCrossed, []fake.Line{fake.Answered(it.CustomID, answer("spam", "words-of-another-report"))}},
		{itemTwice, []fake.Line{good, good}},
		{itemConflict, []fake.Line{wrong, good}},
		{itemUnknown, []fake.Line{fake.Answered("somebody-elses", answer("ok", "")), good}},
	} {
		if f.kind == o.stubborn[work] || o.stubborn[work] == "" && w.strikes(f.kind, it.CustomID) {
			if f.kind == itemTwice || f.kind == itemUnknown {
				return "", f.lines
			}
			return f.kind, f.lines
		}
	}
	return "", []fake.Line{good}
}

// loseResults makes the processor lose the results of a job.
func (o *oracle) loseResults(id string) {
	for _, f := range o.w.fake.Files() {
		if f.Channel != "" && strings.HasPrefix(f.Name, id+"-") {
			o.w.fake.ForgetFile(f.ID)
			o.lostSets[id] = true
		}
	}
}

// cut notes that a download was short without saying so.
func (o *oracle) cut(fileID string) {
	for _, f := range o.w.fake.Files() {
		if f.ID == fileID {
			id, _, _ := strings.Cut(f.Name, "-output")
			id, _, _ = strings.Cut(id, "-error")
			o.cutSets[id] = true
		}
	}
}

// handedOver judges a file of texts that the processor gets.
func (o *oracle) handedOver(name string) {
	part := strings.Split(strings.TrimSuffix(name, ".jsonl"), "_")
	if len(part) != 4 || part[2] == "probe" {
		return
	}
	if o.count("SELECT COUNT(*) FROM submissions WHERE submission_id = $1", part[3]) == 0 {
		o.breach("texts are handed over under submission %s, and no intent of it is committed", part[3])
	}
}

// jobMade judges a job that the processor has just accepted.
func (o *oracle) jobMade(c batch.Creation) {
	all := o.w.fake.Jobs()
	book := all[len(all)-1]
	if book.Metadata["rc_probe"] != "" {
		return
	}
	j := &jobBook{id: book.ID, submission: c.Metadata["rc_submission"], job: c.Metadata["rc_job"], made: o.w.now}
	for _, id := range book.CustomIDs {
		work, _, _ := strings.Cut(id, "-")
		j.works = append(j.works, work)
	}
	o.judgeSubmission(j)
	if !j.stale {
		for _, work := range j.works {
			for _, earlier := range o.jobs {
				o.judgeAgain(work, earlier, j, all)
			}
		}
	}
	o.jobs, o.byID[j.id] = append(o.jobs, j), j
}

// judgeSubmission compares a job with the submission that it is made under.
func (o *oracle) judgeSubmission(j *jobBook) {
	var outcome stdsql.NullString
	err := o.w.books.QueryRow("SELECT outcome FROM submissions WHERE submission_id = $1", j.submission).Scan(&outcome)
	switch {
	case err != nil && o.lost: // a recovery finds it
	case err != nil && o.wentBack && len(j.works) == 0:
		j.stale = true // it was asked for before the ledger was put back, and its file was deleted
	case err != nil:
		o.breach("job %s is made under submission %s, and no intent of it is committed: %v", j.id, j.submission, err)
	case outcome.String == "accepted":
		o.breach("job %s is made under submission %s, which has its job already", j.id, j.submission)
	case outcome.Valid:
		j.stale = true
		if o.w.Settles == batch.SettleByListing && len(j.works) > 0 {
			o.breach("job %s is made with texts under submission %s, which is closed as %s", j.id, j.submission, outcome.String)
		}
	}
}

// judgeAgain judges that a work is sent although an earlier job has it: what
// succeeded, may yet succeed, or was answered for good is not repeated.
func (o *oracle) judgeAgain(work string, earlier, now *jobBook, all []fake.JobBook) {
	if earlier.stale || !slices.Contains(earlier.works, work) {
		return
	}
	var phase batch.Phase
	for _, j := range all {
		if j.ID == earlier.id {
			phase = j.Phase
		}
	}
	kind := o.truth[earlier.id][work]
	_, returned := o.truth[earlier.id][work]
	switch {
	case phase == batch.PhaseInvalid:
	case o.vanished[earlier.id] && (o.wentBack || o.abandoned(earlier.submission)): // neither the ledger nor the processor knows of it
	case o.w.Settles == batch.SettleByRepeat && o.abandoned(earlier.submission): // a repeat does no harm there
	case phase == batch.PhaseRunning:
		o.breach("work %s is sent in job %s while job %s has it", work, now.id, earlier.id)
	case o.lostSets[earlier.id], !returned: // gone, or cancelled before it ran
	case o.cutSets[earlier.id] && o.w.now.Sub(earlier.made) > reconcile.DefaultSettings().FilesGrace: // asked for in vain for long enough
	case kind == "", kind == itemConflict, kind == itemRefused:
		o.breach("work %s is sent in job %s although job %s answered it (%s)", work, now.id, earlier.id, kind)
	}
}

func (o *oracle) abandoned(submission string) bool {
	return o.count("SELECT COUNT(*) FROM submissions WHERE submission_id = $1 AND outcome = 'accepted'", submission) == 0
}

// closedAsAbsent excuses a request that arrived between the list that a process had
// read last and its word that there is no such job: an instant later it would have
// come too late. A list that lags behind is one of an earlier instant, to a request
// that was long on its way. Where an input file is deleted first, nothing can come in
// between.
func (o *oracle) closedAsAbsent(p *process) {
	for _, j := range o.jobs {
		seen := p.listed
		if j.late {
			seen = p.shown
		}
		if !j.stale && o.w.Settles == batch.SettleByResults && !j.made.Before(seen) {
			j.stale = o.count("SELECT COUNT(*) FROM submissions WHERE submission_id = $1 AND outcome = 'proven_absent'", j.submission) > 0
		}
	}
}

// committed judges the ledger behind a commit.
func (o *oracle) committed(p *process, name string) {
	switch name {
	case "claim calls":
		o.callsClaimed(p)
	case "record calls":
		o.callsRecorded(p)
	case "record absent":
		o.closedAsAbsent(p)
	case "commit intent":
		for pattern, before := range o.sealed {
			if n := o.intents(pattern); n > before {
				o.breach("an intent of policy %q is committed behind a brake", pattern)
			}
		}
	case "apply extracted":
		o.judgeRecords()
	}
}

// intents counts the intents of the policy versions that match a pattern.
func (o *oracle) intents(pattern string) int {
	return o.count("SELECT COUNT(*) FROM submissions s JOIN jobs j ON j.job_id = s.job_id WHERE j.policy_id || '/' || j.policy_version LIKE $1", pattern)
}

// count is the answer to a query that counts.
func (o *oracle) count(query string, args ...any) int {
	n, err := o.w.books.count(query, args...)
	if err != nil {
		o.breach("the ledger cannot be read: %v", err)
	}
	return n
}

// wentBackTo forgets what an older copy need not know.
func (o *oracle) wentBackTo() {
	o.wentBack, o.lost, o.standing, o.sealed = true, true, map[string]recordBook{}, map[string]int{}
	for _, r := range o.reports {
		r.content, r.contradicted = map[int64]string{}, false
	}
	o.calls.forget(o.claims(&process{name: "a process before the copy", dead: true}))
}

// stale counts the jobs whose requests came too late.
func (o *oracle) stale() (n int64) {
	for _, j := range o.jobs {
		if j.stale {
			n++
		}
	}
	return n
}
