// The filter language (pure): from a text to a tree. `fields.ts` says what fields mean.
//
//   filter  := and(filter, …) | or(filter, …) | not(filter) | eq(field, literal) | in(field, [literal, …])
//            | has(field, literal) | exists(field, literal) | search(literal) | search(field, literal) | …
//   literal := "text" | 'text' | 12.5 | true | false | null

export type Literal = string | number | boolean | null

const COMPARISONS = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'like', 'has', 'exists'] as const
const OPERATORS = ['and', 'or', 'not', ...COMPARISONS, 'in', 'search'] as const
export type Comparison = (typeof COMPARISONS)[number] | 'in' | 'search'

export type Condition = {
  operator: Comparison
  /** Null for a search in all texts. */
  field: string | null
  /** One, except for `in`. */
  values: Literal[]
  position: number
}
/** `not` has one part. */
export type Filter = { operator: 'and' | 'or' | 'not'; parts: Filter[] } | Condition

/** Positions count characters from 1. */
export class FilterFault extends Error {
  readonly position: number
  constructor(position: number, problem: string) {
    super(`at character ${position}: ${problem}`)
    this.position = position
  }
}

const MAX_FILTER_LENGTH = 20_000
const MAX_DEPTH = 20
const MAX_CALLS = 100
const MAX_LIST = 1000

type Token = { kind: 'name' | 'number' | 'text' | 'sign' | 'end'; text: string; position: number }

const TOKEN =
  /([a-z_]\w*)|(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]))|("(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*')|([()[\],])|$/iy
const KINDS = ['name', 'number', 'text', 'sign'] as const
const SPACE = /\s*/y

function readToken(source: string, from: number): { token: Token; end: number } {
  SPACE.lastIndex = from
  SPACE.test(source)
  const start = SPACE.lastIndex
  const position = start + 1
  TOKEN.lastIndex = start
  const match = TOKEN.exec(source)
  if (!match) {
    const isUnclosed = source[start] === '"' || source[start] === "'"
    throw new FilterFault(position, isUnclosed ? 'this text has no closing quote' : 'this is no part of a filter')
  }
  const kind = KINDS.find((_, i) => match[i + 1] !== undefined) ?? 'end'
  return { token: { kind, text: match[0], position }, end: TOKEN.lastIndex }
}

const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' }

/** Escapes of JSON. Any other escaped character means itself. */
function unquote({ text, position }: Token): string {
  const value = text
    .slice(1, -1)
    .replace(/\\(?:u([0-9a-f]{4})|([\s\S]))/gi, (_, code: string | undefined, escaped: string) =>
      code === undefined ? (ESCAPES[escaped] ?? escaped) : String.fromCharCode(Number.parseInt(code, 16)),
    )
  if (value.includes('\0')) throw new FilterFault(position, 'this text contains a NUL character')
  if (!value.isWellFormed()) throw new FilterFault(position, 'this text contains a lone surrogate')
  return value
}

function toNumber({ text, position }: Token): number {
  const value = Number(text)
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER)
    throw new FilterFault(position, 'this number is beyond 2^53; write it as a text, in quotes')
  return value
}

export function parseFilter(source: string): Filter {
  if (source.length > MAX_FILTER_LENGTH)
    throw new FilterFault(MAX_FILTER_LENGTH + 1, `a filter has at most ${MAX_FILTER_LENGTH} characters`)
  let { token, end } = readToken(source, 0)
  let calls = 0

  const take = (): Token => {
    const taken = token
    ;({ token, end } = readToken(source, end))
    return taken
  }
  const refuse = (expected: string): never => {
    const found = token.kind === 'end' ? 'the end of the filter' : `\`${token.text.slice(0, 40)}\``
    throw new FilterFault(token.position, `expected ${expected}, found ${found}`)
  }
  const isSign = (sign: string): boolean => token.kind === 'sign' && token.text === sign
  const expectSign = (sign: string, expected = `\`${sign}\``): Token => (isSign(sign) ? take() : refuse(expected))

  const readLiteral = (): Literal => {
    if (token.kind === 'text') return unquote(take())
    if (token.kind === 'number') return toNumber(take())
    const word = token.kind === 'name' ? token.text.toLowerCase() : ''
    if (word !== 'true' && word !== 'false' && word !== 'null')
      return refuse('a value: a text in quotes, a number, true, false or null')
    take()
    return word === 'null' ? null : word === 'true'
  }

  const readList = (): Literal[] => {
    const values: Literal[] = []
    expectSign('[', 'a list such as `["a", "b"]`')
    while (!isSign(']')) {
      if (values.length === MAX_LIST) throw new FilterFault(token.position, `a list has at most ${MAX_LIST} values`)
      values.push(readLiteral())
      if (!isSign(']')) expectSign(',', '`,` or `]`')
    }
    take()
    return values
  }

  const readField = (): string => (token.kind === 'name' ? take().text : refuse('the name of a field'))

  const readCondition = (operator: Comparison, position: number): Filter => {
    if (operator === 'search' && token.kind === 'text')
      return { operator, field: null, values: [readLiteral()], position }
    const field = readField()
    expectSign(',')
    return { operator, field, values: operator === 'in' ? readList() : [readLiteral()], position }
  }

  const readParts = (depth: number): Filter[] => {
    const parts = [readCall(depth)]
    while (isSign(',')) {
      take()
      parts.push(readCall(depth))
    }
    return parts
  }

  const readCall = (depth: number): Filter => {
    const { position, text } = token
    const operator = OPERATORS.find(name => name === text)
    if (token.kind !== 'name' || !operator) return refuse(`one of ${OPERATORS.join(', ')}`)
    if (depth > MAX_DEPTH) throw new FilterFault(position, `calls are nested deeper than ${MAX_DEPTH} levels`)
    calls += 1
    if (calls > MAX_CALLS) throw new FilterFault(position, `a filter has at most ${MAX_CALLS} calls`)
    take()
    expectSign('(')
    const hasParts = operator === 'and' || operator === 'or'
    const filter: Filter =
      operator === 'not'
        ? { operator, parts: [readCall(depth + 1)] }
        : hasParts
          ? { operator, parts: readParts(depth + 1) }
          : readCondition(operator, position)
    expectSign(')', hasParts ? '`,` or `)`' : '`)`')
    return filter
  }

  const filter = readCall(1)
  if (token.kind !== 'end') refuse('the end of the filter')
  return filter
}
