package keyring_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/reconcile/keyring"
)

func newRing(t *testing.T) *keyring.Ring {
	t.Helper()
	r, err := keyring.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSavedKeyringGivesTheSameAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyring")
	a := newRing(t)
	if err := a.Save(path); err != nil {
		t.Fatal(err)
	}
	b, err := keyring.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if a.ReportID("t", "s", "1") != b.ReportID("t", "s", "1") || a.Check("l") != b.Check("l") {
		t.Error("ids differ after a reload")
	}
	if a.MAC(keyring.Content, []byte("x")) != b.MAC(keyring.Content, []byte("x")) {
		t.Error("digests differ after a reload")
	}
	sealed, err := a.Encrypt([]byte("text"), "text", "r1")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := b.Decrypt(sealed, "text", "r1")
	if err != nil || string(plain) != "text" {
		t.Errorf("decrypt after a reload: %q, %v", plain, err)
	}
	if err := a.Save(path); err == nil {
		t.Error("an existing keyring was overwritten")
	}
}

func TestIDs(t *testing.T) {
	r := newRing(t)
	seen := map[string]string{}
	for name, id := range map[string]string{
		"report":                 r.ReportID("ab", "c", "d"),
		"report, parts shifted":  r.ReportID("a", "bc", "d"),
		"work":                   r.WorkID("r", 1, "p", 1),
		"work, next revision":    r.WorkID("r", 2, "p", 1),
		"work, next policy":      r.WorkID("r", 1, "p", 2),
		"work, another keyring":  newRing(t).WorkID("r", 1, "p", 1),
		"ledger check":           r.Check("l"),
		"work, digits run over":  r.WorkID("r", 11, "p", 1),
		"work, digits run over2": r.WorkID("r", 1, "1p", 1),
	} {
		if len(id) != 26 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
			t.Errorf("%s: id %q is not 26 of the alphabet", name, id)
		}
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s share an id", name, other)
		}
		seen[id] = name
	}
}

func TestMACKeepsPurposesAndPartsApart(t *testing.T) {
	r := newRing(t)
	a := r.MAC(keyring.Content, []byte("ab"), []byte("c"))
	if a == r.MAC(keyring.Content, []byte("a"), []byte("bc")) {
		t.Error("shifted parts share a digest")
	}
	if a == r.MAC(keyring.Line, []byte("ab"), []byte("c")) {
		t.Error("two purposes share a digest")
	}
}

func TestDecryptRefuses(t *testing.T) {
	r := newRing(t)
	sealed, err := r.Encrypt([]byte("MARKER text"), "text", "r1")
	if err != nil {
		t.Fatal(err)
	}
	flipped := keyring.Encrypted{KeyID: sealed.KeyID, Bytes: append([]byte(nil), sealed.Bytes...)}
	flipped.Bytes[len(flipped.Bytes)-1] ^= 1
	for name, try := range map[string]func() ([]byte, error){
		"another place": func() ([]byte, error) { return r.Decrypt(sealed, "text", "r2") },
		"shifted place": func() ([]byte, error) { return r.Decrypt(sealed, "textr", "1") },
		"changed bytes": func() ([]byte, error) { return r.Decrypt(flipped, "text", "r1") },
		"cut bytes": func() ([]byte, error) {
			return r.Decrypt(keyring.Encrypted{KeyID: sealed.KeyID, Bytes: sealed.Bytes[:5]}, "text", "r1")
		},
		"another keyring": func() ([]byte, error) { return newRing(t).Decrypt(sealed, "text", "r1") },
	} {
		plain, err := try()
		if err == nil {
			t.Errorf("%s: opened as %q", name, plain)
		} else if strings.Contains(err.Error(), "MARKER") {
			t.Errorf("%s: the error holds text: %v", name, err)
		}
	}
	if _, err := r.Decrypt(keyring.Encrypted{KeyID: "text-9", Bytes: sealed.Bytes}, "text", "r1"); !errors.Is(err, keyring.ErrKeyMissing) {
		t.Errorf("unknown key id: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if err := newRing(t).Save(good); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		body string
		mode os.FileMode
		want string
	}{
		"readable by others": {string(raw), 0o640, "chmod 600"},
		"not JSON":           {"SECRETKEY", 0o600, "damaged"},
		"short key":          {strings.Replace(string(raw), `"key": "`, `"key": "AAAA`, 1), 0o600, ""},
		"no text key":        {`{"comment":"","id_key":{"id":"a","key":""},"mac_key":{"id":"b","key":""},"text_keys":[]}`, 0o600, "text_keys"},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(path, []byte(tc.body), tc.mode); err != nil {
			t.Fatal(err)
		}
		_, err := keyring.Load(path)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		} else if strings.Contains(err.Error(), "SECRETKEY") {
			t.Errorf("%s: the error quotes the file", name)
		}
	}
	if _, err := keyring.Load(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "rollcall init") {
		t.Errorf("missing file: %v", err)
	}
}
