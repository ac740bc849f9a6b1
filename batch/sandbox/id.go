package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

// idSource makes ids that are the same for the same seed and the same history,
// and never the same twice: the number of starts is part of them.
type idSource struct {
	seed, epoch uint64
	n           atomic.Uint64
}

func (s *idSource) next(prefix string) string {
	return prefix + s.digest("id", s.epoch, s.n.Add(1))[:24]
}

// of derives an id from others, so that it is the same whenever it is asked for.
func (s *idSource) of(prefix string, parts ...any) string {
	return prefix + s.digest(parts...)[:24]
}

// shuffle is the source of randomness of one job's results.
func (s *idSource) shuffle(jobID string) *rand.Rand {
	sum := sha256.Sum256(fmt.Append(nil, s.seed, "shuffle", jobID))
	return rand.New(rand.NewChaCha8(sum))
}

func (s *idSource) digest(parts ...any) string {
	sum := sha256.Sum256(fmt.Appendln(fmt.Append(nil, s.seed, "/"), parts...))
	return hex.EncodeToString(sum[:])
}
