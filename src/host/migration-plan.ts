// Splits a migration into its transaction and the steps after it, which would lock a table for long: indexes of tables
// that exist, the validation of constraints, and updates of many rows in batches.

export type Step =
  | { kind: 'index'; unique: boolean; name: string; table: string; definition: string; statement: string }
  | { kind: 'constraint'; name: string; table: string; statement: string }
  /** Repeated until it changes no row. */
  | { kind: 'batches'; name: string; statement: string }
export type MigrationPlan = { inTransaction: string[]; afterwards: Step[] }

/** Begins a part of a migration that changes many rows. */
const BATCHES = '--> batches'

/** In a text with single spaces. */
const CREATED_TABLE = /\bcreate (?:unlogged )?table (?:if not exists )?"?(\w+)/gi
const INDEX = /^create\s+(unique\s+)?index\s+"?(\w+)"?\s+on\s+"?(\w+)"?/i
const VALIDATION = /^alter\s+table\s+"?(\w+)"?\s+validate\s+constraint\s+"?(\w+)"?$/i

/** `parts` are the texts between the breakpoints of the migration. */
export function planMigration(parts: string[]): MigrationPlan {
  const created = new Set([...parts.join('\n').replace(/\s+/g, ' ').matchAll(CREATED_TABLE)].map(([, table]) => table!))
  const plan: MigrationPlan = { inTransaction: [], afterwards: [] }
  for (const part of parts) {
    const text = part.trim()
    if (text.startsWith(BATCHES)) {
      const statement = text.slice(BATCHES.length).trim()
      plan.afterwards.push({ kind: 'batches', name: `batches_${plan.afterwards.length + 1}`, statement })
      continue
    }
    const rest: string[] = []
    for (const statement of splitStatements(text)) {
      const step = readStep(statement)
      if (step && !created.has(step.table)) plan.afterwards.push(step)
      else rest.push(statement)
    }
    if (rest.some(statement => withoutComments(statement) !== '')) plan.inTransaction.push(`${rest.join(';\n')};`)
  }
  return plan
}

function readStep(text: string) {
  const statement = withoutComments(text)
  const index = INDEX.exec(statement)
  if (index) {
    const [head, unique, name, table] = index
    const definition = statement.slice(head.length)
    return { kind: 'index' as const, unique: unique !== undefined, name: name!, table: table!, definition, statement }
  }
  const validation = VALIDATION.exec(statement)
  if (validation) return { kind: 'constraint' as const, table: validation[1]!, name: validation[2]!, statement }
  return undefined
}

/** Comments before a statement. */
function withoutComments(statement: string): string {
  const lines = statement.split('\n')
  const first = lines.findIndex(line => line.trim() !== '' && !line.trim().startsWith('--'))
  return first === -1 ? '' : lines.slice(first).join('\n').trim()
}

/** A body ends with the word after its last semicolon. */
const ATOMIC_END = /;\s*end\b/gi

/** At semicolons outside of texts, names, function bodies and comments. Blank statements are left out. */
export function splitStatements(text: string): string[] {
  const statements: string[] = []
  const opening = /'|"|--|\/\*|\$\w*\$|\bbegin\s+atomic\b|;/gi
  let start = 0
  for (let match = opening.exec(text); match; match = opening.exec(text)) {
    const [token] = match
    if (token === ';') {
      statements.push(text.slice(start, match.index))
      start = opening.lastIndex
      continue
    }
    if (/^begin/i.test(token)) {
      ATOMIC_END.lastIndex = opening.lastIndex
      opening.lastIndex = ATOMIC_END.test(text) ? ATOMIC_END.lastIndex : text.length
      continue
    }
    const closing = token === '--' ? '\n' : token === '/*' ? '*/' : token
    const end = text.indexOf(closing, opening.lastIndex)
    opening.lastIndex = end === -1 ? text.length : end + closing.length
  }
  statements.push(text.slice(start))
  return statements.map(statement => statement.trim()).filter(statement => statement !== '')
}
