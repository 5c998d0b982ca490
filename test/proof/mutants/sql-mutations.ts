// Changes of SQL text in a template: of operators, negations, orders and counts.
type Range = { start: number; end: number }

const CHANGES: [RegExp, string][] = [
  [/\band\b/g, 'or'],
  [/\bor\b/g, 'and'],
  [/\bnot exists\b/g, 'exists'],
  [/(?<!not )\bexists\b/g, 'not exists'],
  [/\bis not null\b/g, 'is null'],
  [/\bis null\b/g, 'is not null'],
  [/\bwhere not\b/g, 'where'],
  [/ = (?!any\b)/g, ' <> '],
  [/ <> /g, ' = '],
  [/ = any\b/g, ' <> all'],
  [/ <= /g, ' < '],
  [/ >= /g, ' > '],
  [/ < /g, ' <= '],
  [/ > /g, ' >= '],
  [/ - /g, ' + '],
  [/ \+ /g, ' - '],
  [/ && /g, ' @> '],
  [/ \|\| /g, ' <> '],
  [/\bdesc\b/g, 'asc'],
  [/\bleft join\b/g, 'join'],
  [/\bcoalesce\(/g, 'nullif('],
  [/\blower\(/g, 'upper('],
  [/\btrue\b/g, 'false'],
  [/\bfalse\b/g, 'true'],
  [/\bmin\(/g, 'max('],
  [/\bmax\(/g, 'min('],
  [/\blimit 1\b/g, 'limit 0'],
]

export const sqlMutations = ({ start }: Range, text: string): [Range, after: string][] =>
  CHANGES.flatMap(([from, to]) =>
    [...text.matchAll(from)].map(({ 0: found, index }): [Range, string] => [
      { start: start + index, end: start + index + found.length },
      to,
    ]),
  )
