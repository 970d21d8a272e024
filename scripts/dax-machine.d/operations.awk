# The operations of the power-cut test. They are numbered from 1 without end, and each follows from its number alone:
# so what a store must hold after any number of them can be told without having written it down.
#
#   -v task=commands -v from=N      prints them from number N on, as commands of `slmdb shell`
#   -v task=count -v from=N         reads the answers to those, prints the number of the last acknowledged operation
#   -v task=compare -v through=N    reads what `slmdb scan` prints and compares: all operations through N must show, of
#                                   N + 1 all or nothing, and nothing else; prints the number found

BEGIN {
  FS = "\t"
  KEYS = 3000
  BATCH_CHANGES = 5
  filler = "abcdefghijklmnopqrstuvwxyz0123456789"
  while (length(filler) < 1000) filler = filler filler
  if (task == "commands") {
    for (number = from; ; number++) print_commands(number)
  }
}

# Every tenth operation is a batch; of the others one in five deletes.
function is_batch(number) { return number % 10 == 0 }
function scattered(number) { return int((number * 2654435761) % 4294967296 / 65536) }
function key_of(number, change) { return "key-" scattered(number * 8 + change) % KEYS }
function deletes(number, change) { return (number + change) % 5 == 3 }
function value_of(number, change) {
  return number "." change ":" key_of(number, change) ":" substr(filler, 1, scattered(number + change) % 900)
}

function print_commands(number, change) {
  if (!is_batch(number)) {
    print_change(number, 0)
    return
  }
  print "begin"
  for (change = 0; change < BATCH_CHANGES; change++) print_change(number, change)
  print "commit"
}

function print_change(number, change) {
  if (deletes(number, change)) print "del " key_of(number, change)
  else print "put " key_of(number, change) " " value_of(number, change)
}

function apply(number, change) {
  for (change = 0; change < (is_batch(number) ? BATCH_CHANGES : 1); change++) {
    if (deletes(number, change)) delete expected[key_of(number, change)]
    else expected[key_of(number, change)] = value_of(number, change)
  }
}

# What differs between `found` and `expected`, or nothing.
function difference(key) {
  for (key in expected) {
    if (!(key in found)) return key " is missing"
    if (found[key] != expected[key]) return key " has the value " found[key] " instead of " expected[key]
  }
  for (key in found) {
    if (!(key in expected)) return key " should not be there"
  }
  return ""
}

task == "count" && $0 != "ok" { wrong = "answer " NR " is not ok: " $0; exit }
task == "compare" && $1 in found { wrong = $1 " is there twice"; exit }
task == "compare" { found[$1] = $2 }

END {
  if (wrong == "" && task == "count") {
    number = from - 1
    answers = NR
    while (answers >= (is_batch(number + 1) ? BATCH_CHANGES + 2 : 1)) {
      number++
      answers -= is_batch(number) ? BATCH_CHANGES + 2 : 1
    }
    print number
  }
  if (wrong == "" && task == "compare") {
    for (number = 1; number <= through; number++) apply(number)
    wrong = difference()
    if (wrong == "") print through
    else {
      first = wrong
      apply(through + 1)
      wrong = difference()
      if (wrong == "") print through + 1
      else wrong = "after operation " through ": " first "; after " through + 1 ": " wrong
    }
  }
  if (wrong != "") {
    print wrong
    exit 1
  }
}
