// The mutants of a source file: single small changes that a test of its behavior should notice.
import { parseAst } from 'vite'
import { sqlMutations } from './sql-mutations.ts'

export type Mutant = {
  file: string
  line: number
  /** The text of the line. */
  code: string
  before: string
  after: string
  start: number
  end: number
  /** The innermost function around it. 0: it runs when the module is loaded. */
  scope: number
}
type Node = { type: string; start: number; end: number; [member: string]: unknown }

const COMPARISONS: Record<string, string[]> = {
  '===': ['!=='],
  '!==': ['==='],
  '==': ['!='],
  '!=': ['=='],
  '<': ['<=', '>='],
  '>': ['>=', '<='],
  '<=': ['<', '>'],
  '>=': ['>', '<'],
  '+': ['-'],
  '-': ['+'],
  '*': ['/'],
  '/': ['*'],
  '%': ['*'],
}
const ASSIGNMENTS: Record<string, string> = { '+=': '-=', '-=': '+=', '||=': '&&=', '&&=': '||=', '??=': '&&=' }
const METHODS: Record<string, string> = {
  some: 'every',
  every: 'some',
  startsWith: 'endsWith',
  endsWith: 'startsWith',
  min: 'max',
  max: 'min',
  toLowerCase: 'toUpperCase',
  toUpperCase: 'toLowerCase',
}
/** Calls that are left out. */
const DROPPED_CALLS = ['filter', 'slice', 'sort', 'trim', 'trimStart', 'replace', 'limit', 'offset', 'orderBy', 'where']
const TYPE_WRAPPERS = ['TSAsExpression', 'TSSatisfiesExpression', 'TSNonNullExpression']
const TYPE_MEMBERS = ['typeAnnotation', 'returnType', 'typeParameters', 'typeArguments']

export function parse(code: string): Node {
  return parseAst(code, { lang: 'ts' }) as unknown as Node
}

export function childrenOf(node: Node): Node[] {
  return Object.entries(node).flatMap(([name, value]) => {
    // Names of members are not values.
    if ((name === 'key' || name === 'property') && node.computed !== true) return []
    if (TYPE_MEMBERS.includes(name)) return []
    return [value].flat().filter(isNode).filter(isEvaluated)
  })
}
const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string'
const isEvaluated = ({ type }: Node) =>
  (!type.startsWith('TS') || TYPE_WRAPPERS.includes(type)) && type !== 'ImportDeclaration'
const isFunction = ({ type }: Node) => /^(ArrowFunction|Function)Expression$|^FunctionDeclaration$/.test(type)

/** Calls `visit` for every node that is evaluated, with the number of the function around it. */
export function walk(program: Node, visit: (node: Node, scope: number, parent: Node) => void): void {
  let functions = 0
  const enter = (node: Node, scope: number, parent: Node) => {
    const inner = isFunction(node) ? ++functions : scope
    visit(node, inner, parent)
    for (const child of childrenOf(node)) enter(child, inner, node)
  }
  enter(program, 0, program)
}

export function listMutants(file: string, code: string): Mutant[] {
  const mutants: Mutant[] = []
  const lines = code.split('\n')
  walk(parse(code), (node, scope, parent) => {
    const text = ({ start, end }: Node) => code.slice(start, end)
    for (const [{ start, end }, after] of mutationsOf(node, parent, text)) {
      const before = code.slice(start, end)
      const line = code.slice(0, start).split('\n').length
      const place = { file, line, code: lines[line - 1]!.trim() }
      if (before !== after && isValid(code.slice(0, start) + after + code.slice(end)))
        mutants.push({ ...place, before, after, start, end, scope })
    }
  })
  return mutants
}

function isValid(code: string): boolean {
  try {
    parse(code)
    return true
  } catch {
    return false
  }
}

type Range = { start: number; end: number }
type Mutation = [Range, after: string]

function mutationsOf(node: Node, parent: Node, text: (node: Node) => string): Mutation[] {
  const child = (name: string) => node[name] as Node
  const list = (name: string) => node[name] as Node[]
  const all = (...after: string[]) => after.map<Mutation>(one => [node, one])
  const conditions = (name: string) =>
    ['true', 'false'].filter(value => value !== text(child(name))).map<Mutation>(value => [child(name), value])
  switch (node.type) {
    case 'IfStatement':
    case 'ConditionalExpression':
      return conditions('test')
    case 'WhileStatement':
      return [[child('test'), 'false']]
    case 'BinaryExpression': {
      const [left, right] = [text(child('left')), text(child('right'))]
      // The sum of texts has no opposite.
      if (node.operator === '+' && /['"`]/.test(left + right)) return []
      return all(...(COMPARISONS[node.operator as string] ?? []).map(operator => `${left} ${operator} ${right}`))
    }
    case 'LogicalExpression':
      return all(`(${text(child('left'))}) ${node.operator === '&&' ? '||' : '&&'} (${text(child('right'))})`)
    case 'UnaryExpression':
      return node.operator === '!' || node.operator === '-' ? all(text(child('argument'))) : []
    case 'UpdateExpression':
      return all(text(node).replaceAll(/\+\+|--/g, operator => (operator === '++' ? '--' : '++')))
    case 'AssignmentExpression': {
      const operator = ASSIGNMENTS[node.operator as string]
      return operator ? all(`${text(child('left'))} ${operator} ${text(child('right'))}`) : []
    }
    case 'Literal':
      return all(...literalsInsteadOf(node, parent))
    case 'TemplateLiteral':
      return parent.type === 'TaggedTemplateExpression' || isProse(text(node)) ? [] : all("''")
    case 'TaggedTemplateExpression':
      return text(child('tag')).startsWith('sql')
        ? (child('quasi').quasis as Node[]).flatMap(one => sqlMutations(one, text(one)))
        : []
    case 'ArrayExpression':
      return all(list('elements').length > 0 ? '[]' : "['mutant']")
    case 'ObjectExpression':
      return list('properties').length > 0 ? all('{}') : []
    case 'ArrowFunctionExpression':
      return node.expression ? [[child('body'), 'undefined']] : []
    case 'BlockStatement':
      return list('body').length > 0 ? all('{}') : []
    case 'SwitchCase':
      return list('consequent').map(statement => [statement, ';'])
    case 'CallExpression':
      return mutationsOfCall(node, text)
    case 'MemberExpression':
      return node.optional ? all(text(node).replace('?.', node.computed ? '' : '.')) : []
    default:
      return []
  }
}

function mutationsOfCall(node: Node, text: (node: Node) => string): Mutation[] {
  const [callee, args] = [node.callee as Node, node.arguments as Node[]]
  if (callee.type === 'Identifier') {
    if (callee.name === 'eq') return [[node, `sql\`\${${text(node)}} is not true\``]]
    if (callee.name !== 'and') return []
    return args.map(dropped => [
      node,
      `and(${args
        .filter(one => one !== dropped)
        .map(text)
        .join(', ')})`,
    ])
  }
  if (callee.type !== 'MemberExpression' || callee.computed) return []
  const [object, name] = [callee.object as Node, text(callee.property as Node)]
  if (DROPPED_CALLS.includes(name)) {
    const dot = object.end + text(callee).slice(text(object).length).search(/\??\./)
    return [[{ start: dot, end: node.end }, '']]
  }
  return METHODS[name] ? [[callee.property as Node, METHODS[name]]] : []
}

/** Sentences are for people: tests assert codes, never words. */
const isProse = (text: string): boolean => / /.test(text.trim())

function literalsInsteadOf(node: Node, parent: Node): string[] {
  if (node.regex) return patternsInsteadOf(node.regex as { pattern: string; flags: string })
  const { value } = node
  if (typeof value === 'boolean') return [String(!value)]
  if (typeof value === 'number') return [String(value + 1)]
  if (typeof value !== 'string' || isProse(value) || parent.type === 'ExpressionStatement') return []
  return [value === '' ? "'mutant'" : "''"]
}

function patternsInsteadOf({ pattern, flags }: { pattern: string; flags: string }): string[] {
  const changes: [RegExp, string][] = [
    ...([
      [/^\^/, ''],
      [/\$$/, ''],
    ] as [RegExp, string][]),
    ...([
      [/\[\^/g, '['],
      [/(?<!\\)\[(?!\^)/g, '[^'],
    ] as [RegExp, string][]),
    ...([
      [/(?<=[\])\w])\+/g, ''],
      [/(?<=[\])\w.])\*/g, ''],
    ] as [RegExp, string][]),
    ...([
      [/\\d/g, '\\D'],
      [/\\s/g, '\\S'],
    ] as [RegExp, string][]),
    ...([
      [/(?<=[\])\w])\?/g, ''],
      [/\{(\d+),(\d+)\}/g, '{$1}'],
      [/\{(\d+)\}/g, '{$1,}'],
    ] as [RegExp, string][]),
    [/(?<=\(\?)[=]/g, '!'],
  ]
  const patterns = changes.flatMap(([from, to]) =>
    [...pattern.matchAll(new RegExp(from.source, 'g'))].map(match => {
      const at = match.index
      return pattern.slice(0, at) + match[0].replace(from, to) + pattern.slice(at + match[0].length)
    }),
  )
  const valid = [...new Set(patterns)].filter(one => one !== pattern && isPattern(one, flags))
  return [...valid.map(one => `/${one}/${flags}`), ...(flags ? [`/${pattern}/`] : [])]
}

function isPattern(pattern: string, flags: string): boolean {
  try {
    return Boolean(new RegExp(pattern, flags))
  } catch {
    return false
  }
}

/** The code with a call of `globalThis.reached` at the start of the module and of every function. */
export function countScopes(file: string, code: string): string {
  const insertions: [at: number, text: string][] = []
  const call = (scope: number) => `globalThis.reached?.(${JSON.stringify(`${file}#${scope}`)})`
  walk(parse(code), (node, scope) => {
    if (!isFunction(node)) return
    const body = node.body as Node
    if (body.type === 'BlockStatement') insertions.push([body.start + 1, `${call(scope)};`])
    else insertions.push([body.start, `(${call(scope)},(`], [body.end, '))'])
  })
  let counted = code
  for (const [at, text] of insertions.sort(([a], [b]) => b - a))
    counted = counted.slice(0, at) + text + counted.slice(at)
  return `${call(0)};${counted}`
}
