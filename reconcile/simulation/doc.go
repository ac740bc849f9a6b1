// Package simulation runs the shipped passes over the shipped SQLite store in a
// world of its own: a virtual clock, three processes that a seed interleaves at
// every durable step, processors of each kind that a client declares, and every fault
// that reports meet on their way. An oracle that keeps its own books in memory
// judges each step.
//
// Nothing of a run depends on anything but its plan, which a seed gives: the same
// seed makes the same history, to the last step. Outside of its tests it has the
// list of processors alone.
package simulation
