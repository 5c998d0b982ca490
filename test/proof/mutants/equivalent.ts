// Mutants that change nothing a test of behavior could notice, with the reason. They are not run and do not count.
type Equivalent = {
  file: string
  /** The beginning of the line that is changed. */
  code: string
  changes: string[]
  reason: string
}

const SAME_ROWS = 'Both forms of the query give the same rows. test/host/list-query-plan.test.ts looks at their cost.'
const SECOND_WALL = 'Row-level security gives the same rows. test/isolation-row-security.test.ts runs without it.'
const TYPE_ONLY = 'It is used as a type only.'
const NORMALIZED = 'The URL parser leaves no host that makes a difference.'
const list = 'src/hosting/deployments/list.ts'
const address = 'src/protocol/guarded-address.ts'

export const equivalents: Equivalent[] = [
  {
    file: list,
    code: '].filter(condition => condition !== undefined)',
    changes: ['.filter(condition => condition !== undefined) → (nothing)'],
    reason: SAME_ROWS,
  },
  {
    file: list,
    code: 'group by coalesce(v.tag_key_id, requested.id)',
    changes: ['coalesce( → nullif('],
    reason: 'Values that are not known match nothing, in one group or in several.',
  },
  { file: list, code: 'const MAX_SHALLOW_OFFSET = 200', changes: ['200 → 201'], reason: SAME_ROWS },
  {
    file: list,
    code: 'const condition = and(inTenant(deployments), afterCursor(deployments, query), ...filters)',
    changes: [
      'and(inTenant(deployments), afterCursor(deployments, query), … → ' +
        'and(afterCursor(deployments, query), ...filters)',
    ],
    reason: SECOND_WALL,
  },
  {
    file: list,
    code: 'if (filters.length === 0 && ',
    changes: [
      'filters.length === 0 && !query.deep && !query.include → false',
      'filters.length === 0 && !query.deep && !query.include → ' +
        '(filters.length === 0 && !query.deep) || (!query.include)',
      'filters.length === 0 && !query.deep → (filters.length === 0) || (!query.deep)',
      'filters.length === 0 → filters.length !== 0',
      '0 → 1',
      '!query.deep → query.deep',
      '{ return db .select(wireColumns) .from(deployments) .where(c… → {}',
    ],
    reason: SAME_ROWS,
  },
  {
    file: list,
    code: '.where(and(inTenant(deployments), inArray(deployments.id, ids)))',
    changes: ['and(inTenant(deployments), inArray(deployments.id, ids)) → and(inArray(deployments.id, ids))'],
    reason: SECOND_WALL,
  },
  {
    file: list,
    code: 'return pageStatement({ ',
    changes: [
      'offset >= MAX_SHALLOW_OFFSET && { deep: true } → (offset >= MAX_SHALLOW_OFFSET) || ({ deep: true })',
      'offset >= MAX_SHALLOW_OFFSET → offset > MAX_SHALLOW_OFFSET',
      'offset >= MAX_SHALLOW_OFFSET → offset < MAX_SHALLOW_OFFSET',
      '{ deep: true } → {}',
      'true → false',
    ],
    reason: SAME_ROWS,
  },
  {
    file: list,
    code: '.where(and(inTenant(deployments), ...listFilters(query)))',
    changes: ['and(inTenant(deployments), ...listFilters(query)) → and(...listFilters(query))'],
    reason: SECOND_WALL,
  },
  {
    file: 'src/kernel/http/paging.ts',
    code: 'limit: page.limit + 1,',
    changes: ['1 → 2'],
    reason: 'It reads one row more and shows none more.',
  },
  {
    file: 'src/kernel/http/paging.ts',
    code: "export const nextCursor = Symbol('next')",
    changes: ["'next' → ''"],
    reason: 'The description of a symbol is for debuggers.',
  },
  {
    file: 'src/hosting/deployments/source-rules.ts',
    code: 'const sourceFaultTypes = [',
    changes: ["[ 'source_mode', 'source_member_needed', 'source_member_refu… → []"],
    reason: TYPE_ONLY,
  },
  ...['source_mode', 'source_member_needed', 'source_member_refused'].map(name => ({
    file: 'src/hosting/deployments/source-rules.ts',
    code: `'${name}',`,
    changes: [`'${name}' → ''`],
    reason: TYPE_ONLY,
  })),
  {
    file: 'src/hosting/deployments/plan.ts',
    code: 'const secretChanges = listSecretChanges([], input.secrets, () => false)',
    changes: ['false → undefined', 'false → true'],
    reason: 'It is asked about stored secrets only, and a new deployment has none.',
  },
  {
    file: 'src/hosting/deployments/plan.ts',
    code: "members.push({ path: ['revision_source'], ",
    changes: ['true → false'],
    reason: 'No stored configuration has this member, so it always differs.',
  },
  {
    file: 'src/connect/oauth/metadata-documents.ts',
    code: '} catch {',
    changes: ['{ return null } → {}'],
    reason: 'Nothing is as good as null.',
  },
  {
    file: address,
    code: 'const IP_LITERAL = /^\\[|(^|\\.)(\\d+|0x[0-9a-f]*)$/',
    changes: [
      '/^\\[|(^|\\.)(\\d+|0x[0-9a-f]*)$/ → /\\[|(^|\\.)(\\d+|0x[0-9a-f]*)$/',
      '/^\\[|(^|\\.)(\\d+|0x[0-9a-f]*)$/ → /^\\[|(^|\\.)(\\d+|0x[^0-9a-f]*)$/',
    ],
    reason: NORMALIZED,
  },
  {
    file: address,
    code: 'export const LOOPBACK_HOST = /^(localhost|127(\\.\\d{1,3}){3}|\\[::1\\])$/',
    changes: ['/^(localhost|127(\\.\\d{1,3}){3}|\\[::1\\])$/ → /^(localhost|127(\\.\\d{1,3}){3,}|\\[::1\\])$/'],
    reason: NORMALIZED,
  },
  {
    file: address,
    code: "const portOf = ({ port, protocol }: URL): string => port || (protocol === 'https:' ? '443' : '80')",
    changes: ["protocol === 'https:' → protocol !== 'https:'", "'443' → ''", "'80' → ''"],
    reason: 'Both sides are compared by it, and a URL has no explicit port below 1024 here.',
  },
  {
    file: address,
    code: "if (!hostname.includes('.')) return 'its host is a single word and not a public name'",
    changes: ["!hostname.includes('.') → false"],
    reason: 'The last rule refuses the same hosts, in other words.',
  },
]
