package reconcile

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
)

// Micros is an amount of money in millionths of its currency's unit. Money is
// never a fraction here: a sum of fractions is not the sum of the bill.
type Micros int64

// MaxMicros bounds every single amount: a thousand million units. Nothing that
// is computed wraps around; it stays at the bound, which is over any budget.
const MaxMicros Micros = 1_000_000_000 * microsPerUnit

const microsPerUnit = 1_000_000

// errAmount never quotes what was written.
var errAmount = errors.New(`must be an amount such as "25.00": digits, and at most six of them behind a point`)

var amountPattern = regexp.MustCompile(`^([0-9]{1,10})(?:\.([0-9]{1,6}))?$`)

// ParseMicros reads a decimal number such as 25.00. It takes no sign, no
// exponent and no more than six places, and nothing above MaxMicros.
func ParseMicros(s string) (Micros, error) {
	m := amountPattern.FindStringSubmatch(s)
	if m == nil {
		return 0, errAmount
	}
	n, err := strconv.ParseInt(m[1]+(m[2] + "000000")[:6], 10, 64)
	if err != nil || n > int64(MaxMicros) {
		return 0, errAmount
	}
	return Micros(n), nil
}

// String has at least two places and no more than are needed. It is what
// ParseMicros reads.
func (m Micros) String() string {
	sign, n := "", uint64(m)
	if m < 0 {
		sign, n = "-", -n
	}
	places := fmt.Sprintf("%06d", n%microsPerUnit)
	return fmt.Sprintf("%s%d.%s", sign, n/microsPerUnit, places[:2]+strings.TrimRight(places[2:], "0"))
}

// MarshalText makes JSON hold the amount as a string, which no reader rounds.
func (m Micros) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is ParseMicros.
func (m *Micros) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMicros(string(text))
	return err
}

// CurrencyPattern is what a currency looks like: its three letters in ISO 4217.
var CurrencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)

// Price is what a model costs, for a million tokens each.
type Price struct {
	Input    Micros
	Output   Micros
	Currency string
}

// MaxPrice bounds a price: a million units for a million tokens.
const MaxPrice Micros = 1_000_000 * microsPerUnit

// Cost is what so many tokens cost, rounded up to a millionth, and MaxMicros at
// most.
func (p Price) Cost(input, output int64) Micros {
	inHigh, inLow := bits.Mul64(atLeastZero(input), atLeastZero(int64(p.Input)))
	outHigh, outLow := bits.Mul64(atLeastZero(output), atLeastZero(int64(p.Output)))
	low, carry := bits.Add64(inLow, outLow, 0)
	high, _ := bits.Add64(inHigh, outHigh, carry) // both are below 2^62
	low, carry = bits.Add64(low, tokensPriced-1, 0)
	high += carry
	if high >= tokensPriced {
		return MaxMicros
	}
	cost, _ := bits.Div64(high, low, tokensPriced)
	return Micros(min(cost, uint64(MaxMicros)))
}

// tokensPriced is how many tokens a price is for.
const tokensPriced = 1_000_000

func atLeastZero(n int64) uint64 { return uint64(max(n, 0)) }

// times multiplies two counts that are not negative; what is too large is the
// largest number.
func times(a, b int64) int64 {
	high, low := bits.Mul64(atLeastZero(a), atLeastZero(b))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}
