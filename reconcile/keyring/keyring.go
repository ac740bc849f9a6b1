// Package keyring holds the secrets that the ledger depends on: the key that
// identities are made with, the key of all digests, and the keys that text is
// encrypted with. They live in one file outside the database and its backups.
package keyring

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/crypto/chacha20poly1305"
)

// Purpose keeps digests of different things apart: equal bytes under different
// purposes have unrelated digests.
type Purpose string

// The purposes of digests.
const (
	Content  Purpose = "content"  // the cleaned input of a revision
	Line     Purpose = "line"     // a result line as received
	Body     Purpose = "body"     // a request body or a result file
	Manifest Purpose = "manifest" // what a submission is about to send
	Spec     Purpose = "spec"     // a policy's text
	Payload  Purpose = "payload"  // an artifact
	Source   Purpose = "source"   // input bytes that stand for a missing external id
	Account  Purpose = "account"  // fingerprints of provider accounts
)

const (
	keySize = 32
	// idBytes of a digest make an id of 26 characters: 128 bits, so that two
	// of a thousand million identities never meet.
	idBytes = 16
)

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Encrypted is a sealed text and the key that opens it.
type Encrypted struct {
	KeyID string
	Bytes []byte
}

// ErrKeyMissing means that text was encrypted under a key that the keyring does
// not have. That text cannot be read by anyone without the key.
var ErrKeyMissing = errors.New("the keyring lacks this key; restore the keyring file that belongs to this ledger")

// file is the keyring on disk.
type file struct {
	Comment string    `json:"comment"`
	ID      fileKey   `json:"id_key"`
	MAC     fileKey   `json:"mac_key"`
	Text    []fileKey `json:"text_keys"`
}

type fileKey struct {
	ID  string `json:"id"`
	Key []byte `json:"key"` // base64
}

// Ring is a loaded keyring. It is safe for use by several goroutines.
type Ring struct {
	f    file
	id   []byte
	macs map[Purpose][]byte
}

// Generate makes a new keyring from random bytes. A lost keyring makes every
// stored text unreadable and every known report unknown.
func Generate() (*Ring, error) {
	f := file{
		Comment: "rollcall keyring. Keep a copy apart from the database and its backups: without it no stored text can be read.",
		ID:      fileKey{ID: "id-1"},
		MAC:     fileKey{ID: "mac-1"},
		Text:    []fileKey{{ID: "text-1"}},
	}
	for _, k := range []*fileKey{&f.ID, &f.MAC, &f.Text[0]} {
		k.Key = make([]byte, keySize)
		if _, err := rand.Read(k.Key); err != nil {
			return nil, fmt.Errorf("read random bytes: %w", err)
		}
	}
	return newRing(f)
}

// Load reads a keyring file. A file that other users may read is refused.
func Load(path string) (*Ring, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keyring %s does not exist: `rollcall init` makes one for a new ledger; for an existing ledger restore its keyring, since nothing else can read its texts", path)
	}
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("keyring %s may be read by other users (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	var f file
	if err := json.Unmarshal(raw, &f, json.RejectUnknownMembers(true)); err != nil {
		// The decoder's error may quote the file, and the file is a secret.
		return nil, fmt.Errorf("keyring %s is not a keyring file, or is damaged: restore it from its copy", path)
	}
	r, err := newRing(f)
	if err != nil {
		return nil, fmt.Errorf("keyring %s: %w", path, err)
	}
	return r, nil
}

// Save writes the keyring to a new file that only its owner may read. An
// existing file is never overwritten.
func (r *Ring) Save(path string) error {
	raw, err := json.Marshal(r.f, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("encode keyring: %w", err)
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write keyring: %w", err)
	}
	_, err = out.Write(append(raw, '\n'))
	return errors.Join(err, out.Sync(), out.Close())
}

func newRing(f file) (*Ring, error) {
	if len(f.Text) == 0 {
		return nil, errors.New("text_keys is empty")
	}
	seen := map[string]bool{}
	for _, k := range append([]fileKey{f.ID, f.MAC}, f.Text...) {
		if k.ID == "" || len(k.Key) != keySize {
			return nil, fmt.Errorf("key %q is not a name with %d bytes", k.ID, keySize)
		}
		if seen[k.ID] {
			return nil, fmt.Errorf("key id %q stands twice", k.ID)
		}
		seen[k.ID] = true
	}
	r := &Ring{f: f, macs: map[Purpose][]byte{}}
	var err error
	if r.id, err = hkdf.Key(sha256.New, f.ID.Key, nil, "rollcall id", keySize); err != nil {
		return nil, err
	}
	for _, p := range []Purpose{Content, Line, Body, Manifest, Spec, Payload, Source, Account} {
		if r.macs[p], err = hkdf.Key(sha256.New, f.MAC.Key, nil, "rollcall mac "+string(p), keySize); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// writePart writes one length-prefixed part, so that ("ab", "c") and ("a",
// "bc") never share a digest.
func writePart(h hash.Hash, part []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(part)))
	h.Write(n[:])
	h.Write(part)
}

func (r *Ring) newID(kind string, parts ...string) string {
	h := hmac.New(sha256.New, r.id)
	writePart(h, []byte(kind))
	for _, p := range parts {
		writePart(h, []byte(p))
	}
	return idEncoding.EncodeToString(h.Sum(nil)[:idBytes])
}

// ReportID is the id of a source identity. The same identity has the same id
// for the life of the ledger, also after a restore.
func (r *Ring) ReportID(tenant, system, externalID string) string {
	return r.newID("report", tenant, system, externalID)
}

// WorkID is the id of one extraction: a revision of a report under a policy
// version. It holds no attempt: a retry is the same work.
func (r *Ring) WorkID(reportID string, revision int64, policyID string, policyVersion int64) string {
	return r.newID("work", reportID, fmt.Sprint(revision), policyID, fmt.Sprint(policyVersion))
}

// Check is a value that only this keyring's id key gives for a ledger. The
// ledger stores it, and refuses a keyring that gives another.
func (r *Ring) Check(ledgerID string) string { return r.newID("ledger", ledgerID) }

// MAC is the keyed digest of the parts, in hexadecimal.
func (r *Ring) MAC(p Purpose, parts ...[]byte) string {
	h := r.NewMAC(p)
	for _, part := range parts {
		writePart(h, part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// NewMAC is a running keyed digest, for bytes that come as a stream.
func (r *Ring) NewMAC(p Purpose) hash.Hash {
	key, ok := r.macs[p]
	if !ok {
		panic("keyring: unknown purpose " + string(p))
	}
	return hmac.New(sha256.New, key)
}

// MACKeyID names the key of all digests.
func (r *Ring) MACKeyID() string { return r.f.MAC.ID }

// Encrypt seals text under the newest text key. place says where the
// ciphertext belongs; Decrypt needs the same, so that a ciphertext that was
// moved to another row does not open.
func (r *Ring) Encrypt(plain []byte, place ...string) (Encrypted, error) {
	k := r.f.Text[len(r.f.Text)-1]
	aead, err := chacha20poly1305.NewX(k.Key)
	if err != nil {
		return Encrypted{}, fmt.Errorf("encrypt: %w", err)
	}
	out := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	if _, err := io.ReadFull(rand.Reader, out); err != nil {
		return Encrypted{}, fmt.Errorf("encrypt: %w", err)
	}
	return Encrypted{KeyID: k.ID, Bytes: aead.Seal(out, out, plain, joinPlace(place))}, nil
}

// Decrypt opens what Encrypt sealed for the same place.
func (r *Ring) Decrypt(e Encrypted, place ...string) ([]byte, error) {
	for _, k := range r.f.Text {
		if k.ID != e.KeyID {
			continue
		}
		aead, err := chacha20poly1305.NewX(k.Key)
		if err != nil {
			return nil, fmt.Errorf("decrypt: %w", err)
		}
		if len(e.Bytes) < aead.NonceSize() {
			return nil, errors.New("decrypt: the stored bytes are cut short")
		}
		plain, err := aead.Open(nil, e.Bytes[:aead.NonceSize()], e.Bytes[aead.NonceSize():], joinPlace(place))
		if err != nil {
			return nil, fmt.Errorf("decrypt under key %s: the bytes were changed, moved, or belong to another key", e.KeyID)
		}
		return plain, nil
	}
	return nil, fmt.Errorf("key %s: %w", e.KeyID, ErrKeyMissing)
}

func joinPlace(place []string) []byte {
	var b bytes.Buffer
	for _, p := range place {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		b.Write(n[:])
		b.WriteString(p)
	}
	return b.Bytes()
}
