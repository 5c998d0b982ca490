// The documents that describe a workspace: `slipway export` writes them, `slipway apply` takes them. Pure.

/** The order of application. A document names only resources of earlier kinds. */
export const KINDS = [
  'Workspace',
  'Role',
  'Listener',
  'TagKey',
  'TagValue',
  'Provider',
  'Deployment',
  'PreviewPolicy',
  'Schedule',
  'Webhook',
  'CustomHost',
] as const
export type Kind = (typeof KINDS)[number]

export type WorkspaceDocument = {
  kind: Kind
  name: string
  /** The body of the request that creates it, without what the other members say. */
  spec: object
  owner?: string | undefined
  /** Names of the secrets whose values the body lacks. */
  secrets?: string[] | undefined
  /** Names of what the body would have ids of. */
  listener?: string | undefined
  integration?: string | undefined
  deployments?: string[] | undefined
  tags?: string[] | undefined
  /** `starts_at` and `sticky` of the traffic, and the policy by which later revisions get it. Null: none. */
  traffic?: object | undefined
  rollout?: object | null | undefined
  request_logs?: object | undefined
  /** Calls of a preview policy, which need a secret before they can be in a body. */
  hooks?: { on_create?: string; on_delete?: string } | undefined
}

type Place = { file: string; line?: number | undefined }
/** A document of a file. `placeOf` finds the line of a member. */
export type DeclaredDocument = WorkspaceDocument & { placeOf?: (path: (string | number)[]) => Place }
export type DocumentFault = Partial<Place> & { document: string; path: string; message: string }

export const titleOf = ({ kind, name }: Pick<WorkspaceDocument, 'kind' | 'name'>): string => `${kind} ${name}`

export function faultOf(document: DeclaredDocument, path: (string | number)[], message: string): DocumentFault {
  return { ...document.placeOf?.(path), document: titleOf(document), path: path.join('.'), message }
}

/** The member of a `spec` that `name` stands for. */
const NAMING_MEMBER: Partial<Record<Kind, string>> = {
  Role: 'display_name',
  TagKey: 'key',
  Provider: 'provider_id',
  Deployment: 'name',
  Webhook: 'url',
}

export const listenerName = ({ compute_type, compute_id }: { compute_type: string; compute_id: string }): string =>
  `${compute_type}/${compute_id}`

/** Such as `github.com/acme`. */
export const integrationName = ({ base_url, name }: { base_url: string; name: string }): string =>
  `${hostOf(base_url)}/${name}`
/** With the user of SSH: the same repository may be connected by HTTPS, too. Git also takes `git@host:path`. */
function hostOf(text: string): string {
  if (!URL.canParse(text)) return text.split(':')[0]!
  const { username, host } = new URL(text)
  return username === '' ? host : `${username}@${host}`
}

export const webhookKey = (name: string, description: unknown): string => `${name} ${String(description ?? '')}`

/** Faults of documents that are valid each, such as two of one name. */
export function checkDocuments(documents: DeclaredDocument[]): DocumentFault[] {
  const faults: DocumentFault[] = []
  const seen = new Map<string, DeclaredDocument>()
  for (const document of documents) {
    const { kind, name } = document
    const spec = specOf(document)
    const member = NAMING_MEMBER[kind]
    if (kind === 'Schedule' && (!name.includes('/') || spec.name !== namesOfSchedule(name).schedule))
      faults.push(faultOf(document, ['name'], 'must be deployment/schedule, with the name in `spec` if it has one'))
    if (member && spec[member] !== name) faults.push(faultOf(document, ['spec', member], `must be the name: ${name}`))
    if (kind === 'Listener' && listenerName(spec as never) !== name)
      faults.push(faultOf(document, ['name'], `must be compute_type/compute_id: ${listenerName(spec as never)}`))
    if (kind === 'TagValue' && !name.endsWith(`=${String(spec.value)}`))
      faults.push(faultOf(document, ['name'], `must be key=value, with the value ${String(spec.value)}`))
    // A workspace can have several webhooks of one URL.
    const key = `${kind} ${kind === 'Webhook' ? webhookKey(name, spec.description) : kind === 'Workspace' ? '' : name}`
    const first = seen.get(key)
    if (first) {
      const { file, line } = first.placeOf?.([]) ?? {}
      const where = file ? `: ${file}${line ? `:${line}` : ''}` : ''
      faults.push(faultOf(document, [], `is declared twice${where}`))
    } else seen.set(key, document)
  }
  return faults
}

/** Adds the member that `name` sets. */
export function specOf({ kind, name, spec }: WorkspaceDocument): Record<string, unknown> {
  const member = NAMING_MEMBER[kind]
  const ofSchedule = kind === 'Schedule' && { name: namesOfSchedule(name).schedule }
  return { ...(member && { [member]: name }), ...ofSchedule, ...spec }
}

/** A schedule is named `deployment/schedule`. */
export function namesOfSchedule(name: string): { deployment: string; schedule: string } {
  const [deployment = '', ...rest] = name.split('/')
  return { deployment, schedule: rest.join('/') }
}

export const keyOfTagValue = (name: string, value: unknown): string => name.slice(0, -`=${String(value)}`.length)
