package configs

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, written as 90s, 15m, 1h30m, 7d or 7d12h. A day
// is 24 hours.
type Duration time.Duration

// Std is the duration as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

var errDuration = errors.New("must be a duration such as 90s, 15m, 24h or 7d")

const day = 24 * time.Hour

func (d *Duration) parseScalar(s string) error {
	if s == "0" {
		*d = 0
		return nil
	}
	var total time.Duration
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return errDuration
		}
		total, s = time.Duration(n)*day, rest
		if s == "" {
			*d = Duration(total)
			return nil
		}
	}
	rest, err := time.ParseDuration(s)
	if err != nil || rest < 0 || rest > math.MaxInt64-total {
		return errDuration
	}
	*d = Duration(total + rest)
	return nil
}

// Size is a number of bytes, written as 190MB, 8MiB or 4096.
type Size int64

var (
	errSize     = errors.New("must be a size such as 190MB, 8MiB or a number of bytes")
	sizePattern = regexp.MustCompile(`^([0-9]{1,18}) ?([kKMG]i?B|B|)$`)
	sizeUnits   = map[string]int64{
		"": 1, "B": 1,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9,
		"kiB": 1 << 10, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	}
)

func (s *Size) parseScalar(text string) error {
	m := sizePattern.FindStringSubmatch(text)
	if m == nil {
		return errSize
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	unit := sizeUnits[m[2]]
	if err != nil || n > math.MaxInt64/unit {
		return errSize
	}
	*s = Size(n * unit)
	return nil
}
