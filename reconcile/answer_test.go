package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"rollcall/batch"
)

const testSchema = `{"type":"object","properties":{"label":{"type":"string"},"evidence":{"type":["array","null"],"items":{"type":"string"}},
"score":{"type":"number","maximum":1},"extra":{}},"required":["label"],"additionalProperties":true}`

func testCheck(t testing.TB) *answerCheck {
	t.Helper()
	check, err := newAnswerCheck(&Classifier{Schema: []byte(testSchema), Labels: []Label{{"spam", true}, {"ok", false}}})
	if err != nil {
		t.Fatal(err)
	}
	return check
}

func TestAnswers(t *testing.T) {
	const text = "Kauf “jetzt” 💊 jetzt\nund billig"
	deep := strings.Repeat(`{"a":`, 31) + "1" + strings.Repeat("}", 31)
	deeper := strings.Repeat(`{"a":`, 32) + "1" + strings.Repeat("}", 32)
	for name, tc := range map[string]struct {
		content  string
		evidence string
		fault    answerFault
	}{
		"no evidence needed":           {`{"label":"ok"}`, "[]", ""},
		"null evidence":                {`{"label":"ok","evidence":null}`, "[]", ""},
		"empty evidence":               {` {"label":"ok","evidence":[]} `, "[]", ""},
		"positions are code points":    {`{"label":"spam","evidence":["“jetzt”","💊","und"]}`, "[[5,12],[13,14],[21,24]]", ""},
		"first occurrence":             {`{"label":"spam","evidence":["jetzt"]}`, "[[6,11]]", ""},
		"escaped quote":                {`{"label":"spam","evidence":["\ud83d\udc8a jetzt\nund"]}`, "[[13,24]]", ""},
		"evidence of a harmless label": {`{"label":"ok","evidence":["billig"]}`, "[[25,31]]", ""},
		"depth at the limit":           {`{"label":"ok","extra":` + deep + `}`, "[]", ""},

		"evidence of one letter":         {`{"label":"spam","evidence":["d"]}`, "", faultEvidenceNotFound},
		"evidence of a letter and space": {`{"label":"spam","evidence":[" "]}`, "", faultEvidenceNotFound},
		"empty":                          {``, "", faultJSON},
		"prose":                          {`I think it is spam`, "", faultJSON},
		"fenced":                         {"```json\n{\"label\":\"ok\"}\n```", "", faultJSON},
		"cut":                            {`{"label":"ok"`, "", faultJSON},
		"trailing data":                  {`{"label":"ok"} {"label":"ok"}`, "", faultJSON},
		"trailing garbage":               {`{"label":"ok"}x`, "", faultJSON},
		"invalid UTF-8":                  {"{\"label\":\"ok\",\"extra\":\"\xff\"}", "", faultJSON},
		"lone surrogate":                 {`{"label":"ok","extra":"\ud800"}`, "", faultJSON},
		"bad escape":                     {`{"label":"ok","extra":"\$5"}`, "", faultJSON},
		"number in words":                {`{"label":"ok","score":thirty-five}`, "", faultJSON},
		"not an object":                  {`["ok"]`, "", faultSchema},
		"null":                           {`null`, "", faultSchema},
		"duplicate name":                 {`{"label":"ok","label":"spam"}`, "", faultDuplicate},
		"duplicate name, nested":         {`{"label":"ok","extra":{"a":[{"b":1,"b":2}]}}`, "", faultDuplicate},
		"duplicate name, escaped":        {`{"label":"ok","l\u0061bel":"spam"}`, "", faultDuplicate},
		"other case":                     {`{"label":"ok","LABEL":"spam"}`, "", faultDuplicate},
		"other case alone":               {`{"Label":"ok","label2":1}`, "", faultDuplicate},
		"other case, of another name":    {`{"label":"ok","Evidence":["x"]}`, "", faultDuplicate},
		"other case, nested":             {`{"label":"ok","extra":{"Ab":1,"aB":2}}`, "", faultDuplicate},
		"letter in disguise":             {`{"label":"ok","ſcore":2}`, "", faultDuplicate},
		"too deep":                       {`{"label":"ok","extra":` + deeper + `}`, "", faultDepth},
		"too deep, arrays":               {strings.Repeat("[", 100_000), "", faultDepth},
		"huge number":                    {`{"label":"ok","score":1e999999999}`, "", faultNumber},
		"huge number that is not judged": {`{"label":"ok","extra":[-1e400]}`, "", faultNumber},
		"out of range":                   {`{"label":"ok","score":100}`, "", faultSchema},
		"wrong type":                     {`{"label":["ok"]}`, "", faultSchema},
		"no label":                       {`{"evidence":[]}`, "", faultSchema},
		"label outside the set":          {`{"label":"safe"}`, "", faultLabel},
		"label in another case":          {`{"label":"OK"}`, "[]", ""},
		"label with a space":             {`{"label":"ok "}`, "", faultLabel},
		"empty label":                    {`{"label":""}`, "", faultLabel},
		"evidence missing":               {`{"label":"spam"}`, "", faultEvidenceMissing},
		"evidence empty":                 {`{"label":"spam","evidence":[]}`, "", faultEvidenceMissing},
		"evidence null":                  {`{"label":"spam","evidence":null}`, "", faultEvidenceMissing},
		"quote not in the text":          {`{"label":"spam","evidence":["teuer"]}`, "", faultEvidenceNotFound},
		"quote in another case":          {`{"label":"spam","evidence":["kauf"]}`, "", faultEvidenceNotFound},
		"second quote not in the text":   {`{"label":"spam","evidence":["billig","x"]}`, "", faultEvidenceNotFound},
		"empty quote":                    {`{"label":"spam","evidence":[""]}`, "", faultEvidenceNotFound},
		"blank quote":                    {`{"label":"spam","evidence":[" "]}`, "", faultEvidenceNotFound},
		"too many quotes":                {`{"label":"spam","evidence":[` + strings.Repeat(`"jetzt",`, maxQuotes) + `"jetzt"]}`, "", faultEvidenceShape},
		"too large":                      {`{"label":"ok","extra":"` + strings.Repeat("x", maxAnswer) + `"}`, "", faultTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := testCheck(t).read([]byte(tc.content), func() (batch.Text, error) { return batch.NewText(text), nil })
			var fault answerFault
			if err != nil && !errors.As(err, &fault) {
				t.Fatal(err)
			}
			if fault != tc.fault || got.evidence != tc.evidence {
				t.Errorf("fault %q, evidence %q; want %q, %q", fault, got.evidence, tc.fault, tc.evidence)
			}
			if (err == nil) != slices.Contains([]string{"ok", "spam"}, got.label) {
				t.Errorf("label %q with error %v", got.label, err)
			}
		})
	}
}

func TestEvidenceOfAnotherShape(t *testing.T) {
	check, err := newAnswerCheck(&Classifier{Schema: []byte(`{"properties":{"label":{},"evidence":{}}}`), Labels: []Label{{"ok", false}, {"spam", true}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, evidence := range []string{`"a"`, `{"a":"a"}`, `[1]`, `[["a"]]`, `true`} {
		_, err := check.read([]byte(`{"label":"ok","evidence":`+evidence+`}`), func() (batch.Text, error) { return batch.NewText("a"), nil })
		if err != error(faultEvidenceShape) {
			t.Errorf("%s: %v", evidence, err)
		}
	}
}

func TestF50_TextThatCannotBeReadIsNotTheAnswersFault(t *testing.T) {
	lost := errors.New("key is missing")
	_, err := testCheck(t).read([]byte(`{"label":"spam","evidence":["a"]}`), func() (batch.Text, error) { return batch.Text{}, lost })
	if !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
}

func TestSchemaMustHoldWhatIsRead(t *testing.T) {
	for name, tc := range map[string]struct {
		schema   string
		required bool
		ok       bool
	}{
		"label and evidence":            {`{"properties":{"label":{},"evidence":{}}}`, true, true},
		"no evidence, none required":    {`{"properties":{"label":{}}}`, false, true},
		"no evidence, but required":     {`{"properties":{"label":{}}}`, true, false},
		"no label":                      {`{"properties":{"Label":{},"evidence":{}}}`, false, false},
		"no properties":                 {`true`, false, false},
		"refers to another document":    {`{"$ref":"https://example.test/schema"}`, false, false},
		"refers to a file":              {`{"$ref":"file:///etc/passwd"}`, false, false},
		"is not a schema":               {`{"type":"thing"}`, false, false},
		"is not JSON":                   {`{`, false, false},
		"label behind a local ref only": {`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"label":{}}}}}`, false, false},
	} {
		check, err := newAnswerCheck(&Classifier{Schema: []byte(tc.schema), Labels: []Label{{"a", tc.required}, {"b", false}}})
		if err == nil {
			err = check.fits()
		}
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFold(t *testing.T) {
	for _, pair := range [][2]string{{"label", "LABEL"}, {"score", "ſcore"}, {"kind", "\u212Aind"}, {"größe", "GRÖẞE"}, {"σ", "ς"}} {
		if fold(pair[0]) != fold(pair[1]) {
			t.Errorf("%q and %q differ", pair[0], pair[1])
		}
	}
	if fold("label") != "label" || fold("label") == fold("labels") {
		t.Error("plain names are not kept apart")
	}
}

func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{"label":"ok"}`, `{"label":"spam","evidence":["a b"]}`, `{"label":"spam","LABEL":"ok"}`, `[[[[`, `{"label":"ok","score":1e999}`} {
		f.Add([]byte(seed), "some a b text 💊")
	}
	for _, quote := range []string{`"e\u0301t"`, `"\ud83d\udc8a"`, `"💊"`, `"t\u0000"`, `"\ufffd"`, `"\ud83d"`, "\"\xff\"", "\"\u2028\"", `"\ufeffa"`, `""`, `null`, `1`, `["a b"]`, `"a b","a b"`, `"text","some"`} {
		f.Add([]byte(`{"label":"spam","evidence":[`+quote+`]}`), "some a b text 💊 e\u0301te\u0301 \u2028 \ufeffa \ufffd")
	}
	for _, seed := range []string{"\xef\xbb\xbf{\"label\":\"ok\"}", "{\"label\":\"ok\"}\r\n", `{"label":"ok","l\u0061bel":"spam"}`, `{"label":"ok","extra":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}",
		`{"label":"ok","score":-0.0e-999}`, `{"label":"ok","ſcore":1}`, "{\"label\":\"ok\"}\x00", `{"label":"ok"`} {
		f.Add([]byte(seed), "x")
	}
	check := testCheck(f)
	f.Fuzz(func(t *testing.T, content []byte, text string) {
		got, err := check.read(content, func() (batch.Text, error) { return batch.NewText(text), nil })
		if err != nil {
			var fault answerFault
			if !errors.As(err, &fault) || got.label+got.evidence+string(got.content) != "" {
				t.Fatalf("%v with %+v", err, got)
			}
			return
		}
		if got.label != "ok" && got.label != "spam" {
			t.Fatalf("label %q", got.label)
		}
		if got.label == "spam" && got.evidence == "[]" {
			t.Fatal("a label that must quote has no evidence")
		}
		if strings.Trim(got.evidence, "[],0123456789") != "" {
			t.Fatalf("evidence is not positions: %q", got.evidence)
		}
		checkEvidence(t, content, text, got)
	})
}
