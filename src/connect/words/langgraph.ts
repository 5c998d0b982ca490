// The words of LangGraph's clients: one table, read in both directions, and the places of requests and answers where
// its words stand. No other file knows them.
import { type Reading, setReading, type Translate, varyByWords } from '../../kernel/http/contract-words.ts'
import type { Fault } from '../../kernel/http/errors.ts'
import { findInvalidValues, invalidRequest, MAX_VALUES } from '../../kernel/http/input.ts'
import { beginsWith } from '../../kernel/http/mount-on-demand.ts'
import { resolvePath } from '../../kernel/http/path-aliases.ts'
import { changeItems, changeMembers, sliceObject } from '../../kernel/json/json-slices.ts'
import { SLEEPING } from '../../protocol/defaults.ts'

type Words = Record<string, string>

// ---- the table: the vendor's word, then ours

const SOURCES: Words = {
  github: 'githost',
  external_docker: 'external_container',
  internal_docker: 'internal_container',
}
/** In requests only: an answer names the type that the deployment has. */
const DEPLOYMENT_TYPES: Words = { serverless: 'dev', dev_zero: 'dev', dedicated: 'prod' }
/** Clients wait for an end that they know, and show the reason, at the end of the build log, for this one only. */
const STATUSES: Words = { INTERRUPTED: 'BUILD_FAILED', DEPLOY_FAILED: 'BUILD_FAILED' }
const MEMBERS: Words = { langgraph_config_path: 'platform_config_path' }
const PATHS: Words = {
  '/v1/integrations/github': '/v1/integrations/forge/githost',
  // Clients look here for a control plane below the address of a whole installation.
  '/api-host/v1/integrations/github': '/v1/integrations/forge/githost',
  '/api-host/v1/projects': '/v1/projects',
  '/api-host/v2/deployments': '/v2/deployments',
  '/api-host/v2/listeners': '/v2/listeners',
}
/** Clients look for these words in an error, and then explain it. */
const SENTENCES: Words = {
  'source must be internal_container for a push':
    "A push token is only available for 'internal_docker' source deployments",
  'source_config.listener_id is required': "'source_config.listener_id' is required",
}
/** Ignored, each of these would make a client act on another deployment. */
const REFUSED: Record<'query' | 'body', Words> = {
  query: {
    agent_id: 'is not supported: deployments belong to no agent here; filter by `name_contains`',
    agent_environment: 'is not supported: deployments belong to no agent here; filter by `name_contains`',
  },
  body: { agent: 'is not supported: deployments belong to no agent here; send `name`' },
}
const SCALES_TO_ZERO = ['serverless', 'dev_zero']

// ---- changes of JSON texts: they keep every other byte, so that a stored answer is that of the same body

type Change = (json: string) => string
const keep: Change = json => json
const lookUp = (words: Words, word: string): string => (Object.hasOwn(words, word) ? words[word]! : word)
const invert = (words: Words): Words =>
  Object.fromEntries(Object.entries(words).map(([theirs, ours]) => [ours, theirs]))
const OUR_SOURCES = invert(SOURCES)
const OUR_MEMBERS = invert(MEMBERS)
const OUR_WORDS = { ...OUR_SOURCES, ...OUR_MEMBERS }

const text =
  (change: (value: string) => string): Change =>
  json =>
    json.startsWith('"') ? JSON.stringify(change(JSON.parse(json))) : json
const word = (words: Words) => text(value => lookUp(words, value))
const object =
  (changes: Record<string, Change>, names: Words = {}): Change =>
  json =>
    changeMembers(
      json,
      (name, value) => [lookUp(names, name), Object.hasOwn(changes, name) ? changes[name]!(value) : value],
      // A body has no more values, unless it repeats a name.
      MAX_VALUES,
    )
const list =
  (change: Change): Change =>
  json =>
    changeItems(json, change)

/** The places of our words in a sentence. Elsewhere, the same word may be a name that a person chose. */
const PLACES = [
  /source_revision_config\.[\w-]+/g,
  /\bsource `?[\w-]+/g,
  /must be one of `[\w-]+`(, `[\w-]+`)*/g,
  /`[\w-]+` is only available with SLIPWAY_MODE/g,
  /[Dd]id you mean `[\w-]+`/g,
]
/** For texts of ours that say what is wrong or what will happen. */
function translateProse(prose: string): string {
  let translated = prose
  for (const [ours, theirs] of Object.entries(SENTENCES)) translated = translated.replaceAll(ours, theirs)
  translated = translated.replaceAll(PATHS['/v1/integrations/github']!, '/v1/integrations/github')
  for (const place of PLACES)
    translated = translated.replace(place, found => found.replace(/[\w-]+/g, part => lookUp(OUR_WORDS, part)))
  return translated
}
const prose = text(translateProse)

const deployment = (sources: Words, source_config: Change, members: Words): Record<string, Change> => ({
  source: word(sources),
  revision_source: word(sources),
  source_config,
  source_revision_config: object({}, members),
})

const isScaledToZero = (config: string) =>
  SCALES_TO_ZERO.some(type => sliceObject(config).get('deployment_type') === JSON.stringify(type))
const isSet = (json: string, name: string): boolean => (sliceObject(json).get(name) ?? 'null') !== 'null'
/** The smallest scale of a deployment that may sleep, unless the client says another one. `sleeps`: also when. */
function scaleToZero(config: string, sleeps: boolean): string {
  const spec = sliceObject(config).get('resource_spec')
  const own = spec?.startsWith('{') ? spec : '{}'
  if (!isScaledToZero(config) || isSet(own, 'min_scale')) return config
  const { min_scale, idle_seconds } = SLEEPING
  const scaled = withMember(own, 'min_scale', `${min_scale}`)
  const isTimed = !sleeps || isSet(own, 'idle_seconds')
  return withMember(config, 'resource_spec', isTimed ? scaled : withMember(scaled, 'idle_seconds', `${idle_seconds}`))
}
/** The text of an object with this member, in place of one of its name. */
const withMember = (json: string, name: string, value: string): string =>
  sliceObject(json).has(name)
    ? changeMembers(json, (one, own) => [one, one === name ? value : own])
    : `{${JSON.stringify(name)}:${value}${sliceObject(json).size > 0 ? ',' : ''}${json.slice(json.indexOf('{') + 1)}`

const typed = object({ deployment_type: word(DEPLOYMENT_TYPES) })
/** Graphs from a folder say when they may sleep. An image may be of a server that nobody asks. */
const FOLDERS = ['internal_source', 'github', 'githost'].map(source => JSON.stringify(source))
const newDeployment =
  (canSleep: boolean): Change =>
  json => {
    const sleeps = canSleep && FOLDERS.includes(sliceObject(json).get('source') ?? '')
    return object(deployment(SOURCES, config => typed(scaleToZero(config, sleeps)), MEMBERS))(json)
  }
const deploymentInput = object(deployment(SOURCES, typed, MEMBERS))
const answered = deployment(OUR_SOURCES, keep, OUR_MEMBERS)
/** Clients show `custom_url` as the URL of the application. */
const located = (json: string): string => {
  const members = sliceObject(json)
  const url = [members.get('local_url'), members.get('url')].find(text => text?.startsWith('"'))
  const config = members.get('source_config')
  if (url === undefined || !config?.startsWith('{') || sliceObject(config).get('custom_url')?.startsWith('"'))
    return json
  return withMember(json, 'source_config', withMember(config, 'custom_url', url))
}
/** A change in a plan or a comparison. Its values are words where its path is that of a source. */
const change: Change = json => {
  const isSource = /^"(revision_)?source"$/.test(sliceObject(json).get('path') ?? '')
  const value = isSource ? word(OUR_SOURCES) : keep
  return object({ path: prose, before: value, after: value })(json)
}
const wanted = object({ wanted: object(answered) })
const translatedAnswer = object({
  ...answered,
  resources: list(item => located(object(answered)(item))),
  past: wanted,
  present: wanted,
  changes: list(change),
  reasons: list(prose),
  warnings: list(prose),
})
const deploymentAnswer: Change = json => located(translatedAnswer(json))
const revisionAnswer: Change = json => object({ ...answered, status: word(STATUSES) })(json)
const location: Change = json => {
  const names: (string | number)[] = JSON.parse(json)
  const isMember = (i: number) => names[i - 1] === 'source_revision_config'
  return JSON.stringify(names.map((name, i) => (isMember(i) ? lookUp(OUR_MEMBERS, `${name}`) : name)))
}
const problem = object({ detail: prose, errors: list(object({ loc: location, msg: prose })) })

// ---- the routes

/** `hasReason`: the reason of a revision that failed later is added to its build log. */
type Route = { body?: Change; answer?: Change; hasFilters?: boolean; hasReason?: boolean }
/** By path, where `*` is any segment. Errors of all are translated. */
const ROUTES: Record<string, Route> = {
  '/v2/deployments': { body: newDeployment(true), answer: deploymentAnswer, hasFilters: true },
  '/v2/deployment-counts': { hasFilters: true },
  '/v2/deployments/*': { body: deploymentInput, answer: deploymentAnswer },
  '/v2/deployments/*/owner': { answer: deploymentAnswer },
  '/v2/deployments/*/protection': { answer: deploymentAnswer },
  '/v2/deployments/*/traffic': { answer: deploymentAnswer },
  '/v2/deployments/*/request-logs': { answer: deploymentAnswer },
  '/v2/deployments/*/rollout': { answer: deploymentAnswer },
  '/v2/deployments/*/rollout/*': { answer: deploymentAnswer },
  '/v2/deployments/*/rollback': { answer: deploymentAnswer },
  '/v2/deployments/*/state': { answer: deploymentAnswer },
  '/v2/deployments/*/revisions': { answer: deploymentAnswer },
  '/v2/deployments/*/revisions/*': { answer: revisionAnswer },
  '/v2/deployments/*/revisions/*/redeploy': { answer: deploymentAnswer },
  '/v2/deployments/*/revisions/*/wait': { answer: deploymentAnswer },
  '/v2/deployments/*/revisions/*/compare/*': { answer: deploymentAnswer },
  '/v2/deployments/*/push-token': {},
  '/v2/deployments/*/upload-url': {},
  '/v1/projects/*/revisions/*/build_logs': { hasReason: true },
}
const PATTERNS = Object.entries(ROUTES).map(([path, route]) => [path.split('/'), route] as const)

function findRoute(path: string): Route {
  const segments = path.split('/')
  return PATTERNS.find(([one]) => one.length === segments.length && beginsWith(segments, one))?.[1] ?? {}
}

function resolveWords(path: string): string {
  const start = Object.keys(PATHS).find(one => path === one || path.startsWith(`${one}/`))
  return start === undefined ? path : PATHS[start] + path.slice(start.length)
}

type LogQuery = { order?: unknown; offset?: unknown }
type Events = {
  onScaleToZero: (sent: string, read: string) => void
  onRefusal: () => void
  onLogQuery: (query: LogQuery) => void
}

function createReading(path: string, route: Route, events: Events): Reading {
  const { body = keep, hasFilters = false, hasReason = false } = route
  const refuse = (faults: Fault[]) => {
    if (faults.length === 0) return
    events.onRefusal()
    throw invalidRequest(faults)
  }
  return {
    path,
    readQuery(query) {
      if (!hasFilters) return query
      refuse(findRefusedWords('query', query))
      const { source, deployment_type } = query
      return {
        ...query,
        ...(typeof source === 'string' && { source: lookUp(SOURCES, source) }),
        ...(typeof deployment_type === 'string' && { deployment_type: lookUp(DEPLOYMENT_TYPES, deployment_type) }),
      }
    },
    readBody(json) {
      if (hasReason) events.onLogQuery(parseObject(json) ?? {})
      // The route reports a text that is not JSON, and one beyond its limits, which would be slow to translate.
      const sent = body === keep ? undefined : parseObject(json)
      if (!sent || findInvalidValues(sent, 'body').length > 0) return json
      refuse([...findRefusedWords('body', sent), ...findDoubledMembers(sent)])
      const { deployment_type } = Object(sent.source_config)
      const read = body(json)
      if (SCALES_TO_ZERO.includes(deployment_type)) events.onScaleToZero(json, read)
      return read
    },
  }
}

function parseObject(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

const findRefusedWords = (place: 'query' | 'body', sent: Record<string, unknown>): Fault[] =>
  Object.keys(sent)
    .filter(name => sent[name] != null && Object.hasOwn(REFUSED[place], name))
    .map(name => ({ type: 'not_supported', loc: [place, name], msg: REFUSED[place][name]! }))

/** The later of two words for the same member would count. */
function findDoubledMembers({ source_revision_config }: Record<string, unknown>): Fault[] {
  const sent: object = Object(source_revision_config)
  return Object.entries(MEMBERS)
    .filter(names => names.every(name => Object.hasOwn(sent, name)))
    .map(([theirs, ours]) => ({
      type: 'member_doubled',
      loc: ['body', 'source_revision_config', theirs],
      msg: `is the same member as \`${ours}\`; send one of them`,
    }))
}

const JSON_TYPE = /^application\/(problem\+)?json\b/
const WARNINGS = 'Slipway-Warnings'

export const translate: Translate = async (request, answer) => {
  const path = resolveWords(resolvePath(request))
  const route = findRoute(path)
  let warning = ''
  let isRefusedHere = false
  let sent: string | undefined
  const onScaleToZero = (json: string, read: string) => {
    sent = json
    const { min_scale, idle_seconds } = Object(parseObject(read)?.source_config).resource_spec ?? {}
    const isAwake = min_scale === 0 && idle_seconds == null
    warning = isAwake ? '"`min_scale` is 0. One copy keeps running until `idle_seconds` is set."' : ''
  }
  const onRefusal = () => {
    isRefusedHere = true
  }
  let logQuery: LogQuery = {}
  const onLogQuery = (query: LogQuery) => {
    logQuery = query
  }
  const read = (one: Request, by: Route) => {
    setReading(one, createReading(path, by, { onScaleToZero, onRefusal, onLogQuery }))
    return answer(one)
  }
  let response = await read(request, route)
  if (sent !== undefined && path === CREATION && (await cannotSleep(response)))
    response = await read(repeatRequest(request, sent), { ...route, body: newDeployment(false) })
  const [isJson, isProblem] = JSON_TYPE.exec(response.headers.get('Content-Type') ?? '') ?? []
  if (route.hasReason && response.ok) return addReason(request, path, logQuery, response, answer)
  // A refusal of this file is in their words already.
  const translateAnswer = isRefusedHere ? keep : isProblem ? problem : route.answer
  // The words decide also which route answers.
  varyByWords(response)
  if (!translateAnswer) return response
  const warnings = [response.headers.get(WARNINGS), warning].filter(Boolean).join(', ')
  if (warnings) response.headers.set(WARNINGS, translateProse(warnings))
  if (!isJson || !response.body) return response
  // Answers are bounded by their pages.
  const translated = new Response(translateAnswer(await response.text()), response)
  translated.headers.delete('Content-Length')
  return translated
}

const CREATION = '/v2/deployments'
/** Its listener cannot put it to sleep, or has refused that before, under this key of idempotency. */
async function cannotSleep(response: Response): Promise<boolean> {
  if (response.ok) return false
  const { code, detail } = Object(parseObject(await response.clone().text()))
  const isRefused = code === 'not_allowed_by_listener' && `${detail}`.includes('resource_spec.idle_seconds')
  return isRefused || code === 'idempotency_key_reused'
}

function repeatRequest(request: Request, body: string): Request {
  const headers = new Headers(request.headers)
  for (const name of ['Content-Length', 'Content-Encoding']) headers.delete(name)
  return new Request(request.url, { method: request.method, headers, body })
}

type Log = { logs?: { id: string; timestamp: string; level: string; message: string }[]; next_offset?: string }
type FailedRevision = { id: string; status: string; status_message: string | null; updated_at: string }

/** Clients print the last lines of the build log, and no other reason why a revision failed. */
async function addReason(
  request: Request,
  path: string,
  { order, offset }: LogQuery,
  response: Response,
  answer: Parameters<Translate>[1],
): Promise<Response> {
  const log = (await response.json()) as Log
  const [deployment, revision] = [path.split('/')[3], path.split('/')[5]]
  const headers = new Headers(request.headers)
  for (const name of ['Content-Type', 'Content-Length', 'Idempotency-Key']) headers.delete(name)
  const url = new URL(`/v2/deployments/${deployment}/revisions/${revision}`, request.url)
  const found = await answer(new Request(url, { headers }))
  const { id, status, status_message, updated_at } = (found.ok ? await found.json() : {}) as Partial<FailedRevision>
  const isNewestFirst = order === 'desc'
  const isAtEnd = isNewestFirst ? offset == null : log.next_offset === undefined
  if (isAtEnd && status_message && status && STATUSES[status]) {
    const lines = status_message
      .split('\n')
      .map((message, i) => ({ id: `${id}-reason-${i}`, timestamp: updated_at!, level: 'ERROR', message }))
    log.logs = isNewestFirst ? [...lines.reverse(), ...(log.logs ?? [])] : [...(log.logs ?? []), ...lines]
  }
  const { status: code, headers: sent } = response
  const own = new Headers(sent)
  own.delete('Content-Length')
  return new Response(JSON.stringify(log), { status: code, headers: own })
}
