// Compares the answers that the fuzzer got with the OpenAPI document.
import { CODES_OF_STATE, UNSAID, UNSAID_EVERYWHERE } from './unsaid.ts'

export type Case = {
  operation: string
  phase: string
  /** The request is one that the document allows. */
  isAllowed: boolean
  status: number
  mediaType: string
  /** A text, except in answers of another protocol. */
  code: unknown
  faults: [place: string, type: string][]
  /** The link between operations that led to it. */
  link: string | null
}

type Described = { operationId: string; responses: Record<string, { $ref?: string; content?: object }> }
export type Document = {
  paths: Record<string, Record<string, Described>>
  components: { responses: Record<string, { content?: object }> }
}

/** A credential, a resource or a state is not as the request needs it, of which no schema speaks. */
const OF_STATE = new Set([401, 403, 404, 408, 409, 412, 428, 429])

export type Verdict = {
  /** Operations without a case. */
  unreached: string[]
  operations: number
  cases: number
  /** Different links between operations, and the cases that followed one. */
  links: number
  linked: number
  serverErrors: string[]
  undocumentedStatuses: string[]
  undocumentedMediaTypes: string[]
  /** Operations that refuse what the document allows, with what they said. */
  refusing: Map<string, string>
  /** Operations of the list that refused nothing. */
  listedInVain: string[]
}

export function judge(document: Document, cases: Case[]): Verdict {
  const described = new Map(
    Object.values(document.paths).flatMap(path => Object.values(path).map(one => [one.operationId, one] as const)),
  )
  const contentOf = ({ operation, status }: Case): object | undefined => {
    const response = described.get(operation)!.responses[status]
    const name = response?.$ref?.split('/').at(-1)
    return (name ? document.components.responses[name] : response)?.content
  }
  const isDocumented = ({ operation, status }: Case) => String(status) in described.get(operation)!.responses
  const hasMediaType = (one: Case) => {
    const types = Object.keys(contentOf(one) ?? {})
    return one.mediaType === '' || types.includes(one.mediaType) || types.includes('*/*')
  }
  const list = (isFaulty: (one: Case) => boolean, what: (one: Case) => unknown) => [
    ...new Set(cases.filter(isFaulty).map(one => `${one.operation} ${what(one)}`)),
  ]
  const reached = new Set(cases.map(({ operation }) => operation))
  const linked = cases.filter(({ link }) => link !== null)
  const refused = cases.filter(isRefusal)
  const refusing = new Map(refused.map(one => [one.operation, describeRefusal(one)]))
  return {
    unreached: [...described.keys()].filter(name => !reached.has(name)),
    operations: reached.size,
    cases: cases.length,
    links: new Set(linked.map(({ link }) => link)).size,
    linked: linked.length,
    // A server of others that is not there, and a part that is not configured, are answers that the document has.
    serverErrors: list(
      one => one.status >= 500 && !(one.status > 500 && isDocumented(one)),
      ({ status, code }) => `${status} ${code}`,
    ),
    undocumentedStatuses: list(
      one => !isDocumented(one),
      ({ status }) => status,
    ),
    undocumentedMediaTypes: list(
      one => isDocumented(one) && !hasMediaType(one),
      ({ mediaType }) => mediaType,
    ),
    refusing,
    listedInVain: Object.keys(UNSAID).filter(operation => !refusing.has(operation)),
  }
}

function isRefusal({ isAllowed, status, code, faults }: Case): boolean {
  if (!isAllowed || status < 400 || status >= 500 || OF_STATE.has(status)) return false
  if (typeof code === 'string' && Object.hasOwn(CODES_OF_STATE, code)) return false
  return !faults.some(([, type]) => UNSAID_EVERYWHERE.has(type))
}

const describeRefusal = ({ status, code, faults }: Case): string =>
  `${status} ${code} ${faults
    .map(([place, type]) => `${place} ${type}`)
    .slice(0, 3)
    .join(', ')}`
