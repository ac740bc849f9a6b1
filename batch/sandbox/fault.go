package sandbox

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is a named misbehaviour with its parameters, as in
// "rate_limit:op=create,retry_after=5,times=2". A parameter that is not given
// has the default that [FaultHelp] names.
//
// When a fault acts depends on its kind. A request fault acts on requests that
// arrive while it is set. A job fault is fixed when a job is created and stays
// with that job. An item or file fault acts when results are written.
type Fault struct {
	Name   string            `json:"name"`
	Params map[string]string `json:"params,omitempty"`
}

// ParseFault reads name[:key=value,...] as a command line gives it. The error
// of an unknown name or parameter lists the known ones.
func ParseFault(s string) (Fault, error) {
	name, rest, _ := strings.Cut(s, ":")
	f := Fault{Name: name}
	if rest != "" {
		f.Params = map[string]string{}
		for pair := range strings.SplitSeq(rest, ",") {
			key, value, ok := strings.Cut(pair, "=")
			if !ok {
				return Fault{}, fmt.Errorf("fault %s: parameter %q is not key=value", name, pair)
			}
			if _, twice := f.Params[key]; twice {
				return Fault{}, fmt.Errorf("fault %s: parameter %s is given twice", name, key)
			}
			f.Params[key] = value
		}
	}
	return f, f.validate()
}

func (f Fault) String() string {
	if len(f.Params) == 0 {
		return f.Name
	}
	var pairs []string
	for k, v := range f.Params {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	return f.Name + ":" + strings.Join(pairs, ",")
}

// FaultNames lists every fault, sorted.
func FaultNames() []string {
	var names []string
	for _, s := range specs {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return names
}

// FaultHelp explains every fault and its parameters, for a command's help text.
func FaultHelp() string {
	var b strings.Builder
	for _, group := range []struct {
		title  string
		stages []stage
	}{
		{"Request faults act on requests while they are set:", []stage{beforeActing, counting, afterActing, answering}},
		{"Job faults are fixed when a job is created:", []stage{ofJob}},
		{"Item faults act when results are written, on the lines that every, prefix and share select (all, without one):", []stage{ofAnswer, ofLine}},
		{"File faults act when results are written:", []stage{ofFile}},
		{"Call faults alter the answer to a call about one text:", []stage{ofCall}},
	} {
		fmt.Fprintf(&b, "%s\n", group.title)
		for _, s := range specs {
			if slices.Contains(group.stages, s.stage) {
				s.help(&b)
			}
		}
	}
	b.WriteString("times=N limits any fault to its next N occurrences; 0 is no limit.\n")
	return b.String()
}

func (s spec) help(b *strings.Builder) {
	fmt.Fprintf(b, "  %-22s %s\n", s.name, s.does)
	for _, p := range s.params {
		fmt.Fprintf(b, "  %-22s   %s=%s  %s\n", "", p.name, p.def, p.does)
	}
}

func (f Fault) validate() error {
	s, err := specOf(f.Name)
	if err != nil {
		return err
	}
	for key, value := range f.Params {
		i := slices.IndexFunc(s.allParams(), func(p param) bool { return p.name == key })
		if i < 0 {
			return fmt.Errorf("fault %s has no parameter %q; it has %s", f.Name, key, strings.Join(s.paramNames(), ", "))
		}
		if err := s.allParams()[i].check(value); err != nil {
			return fmt.Errorf("fault %s: parameter %s: %w", f.Name, key, err)
		}
	}
	return nil
}

func specOf(name string) (spec, error) {
	i := slices.IndexFunc(specs, func(s spec) bool { return s.name == name })
	if i < 0 {
		return spec{}, fmt.Errorf("no fault %q; known are %s", name, strings.Join(FaultNames(), ", "))
	}
	return specs[i], nil
}

// The accessors below are for a validated fault and one of its parameters.

func (f Fault) text(key string) string {
	if v, ok := f.Params[key]; ok {
		return v
	}
	s, _ := specOf(f.Name)
	for _, p := range s.allParams() {
		if p.name == key {
			return p.def
		}
	}
	return ""
}

func (f Fault) number(key string) int64 {
	n, _ := strconv.ParseInt(f.text(key), 10, 64)
	return n
}

func (f Fault) fraction(key string) float64 {
	x, _ := strconv.ParseFloat(f.text(key), 64)
	return x
}

func (f Fault) duration(key string) time.Duration {
	d, _ := time.ParseDuration(f.text(key))
	return d
}

func (f Fault) flag(key string) bool { return f.text(key) == "true" }

// selects says whether an item fault concerns the line with this number and id.
func (f Fault) selects(no int, customID string) bool {
	if every := f.number("every"); every > 1 && int64(no)%every != 0 {
		return false
	}
	if !strings.HasPrefix(customID, f.text("prefix")) {
		return false
	}
	share := f.fraction("share")
	if share >= 1 {
		return true
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s", f.text("seed"), customID)
	return float64(mix(h.Sum64())) < share*math.MaxUint64
}

// mix spreads an FNV sum over all 64 bits: short, similar ids differ in the low
// ones only.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func (p param) check(value string) error {
	switch p.kind {
	case isCount:
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < 0 {
			return fmt.Errorf("%q is not a whole number", value)
		}
	case isShare:
		if x, err := strconv.ParseFloat(value, 64); err != nil || !(x >= 0 && x <= 1) {
			return fmt.Errorf("%q is not a number from 0 to 1", value)
		}
	case isDuration:
		if d, err := time.ParseDuration(value); err != nil || d < 0 {
			return fmt.Errorf("%q is not a duration such as 30s or 24h", value)
		}
	case isFlag:
		if value != "true" && value != "false" {
			return fmt.Errorf("%q is not true or false", value)
		}
	case isChoice:
		if !slices.Contains(p.of, value) {
			return fmt.Errorf("%q is none of %s", value, strings.Join(p.of, ", "))
		}
	case isText:
		if p.name != "prefix" && value == "" {
			return errors.New("is empty")
		}
	}
	return nil
}
