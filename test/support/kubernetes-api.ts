// A small Kubernetes API server over HTTP: discovery, server-side apply, lists, watches, logs, refusals. Nothing runs
// on it: a test sets the status of pods.
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { KubeConfig } from '@kubernetes/client-node'
import { API_VERSIONS, type Kind } from '../../src/agent/engines/kubernetes/cluster.ts'
import type { Fields, Json } from './kubernetes-apply.ts'
import { PodSockets } from './kubernetes-sockets.ts'
import {
  ApiError,
  type Change,
  KubernetesObjects,
  matchesLabels,
  type Refusal,
  type Stored,
} from './kubernetes-store.ts'

export type ApiRequest = { verb: string; kind: string; name: string | undefined; namespace: string; force: boolean }
export type Rule = { apiGroups: string[]; resources: string[]; verbs: string[] }

const IRREGULAR_PLURALS: Record<string, string> = { NetworkPolicy: 'networkpolicies', Ingress: 'ingresses' }
export const toPlural = (kind: string) => IRREGULAR_PLURALS[kind] ?? `${kind.toLowerCase()}s`
const KIND_BY_RESOURCE = Object.fromEntries(
  (Object.keys(API_VERSIONS) as Kind[]).map(kind => [`${API_VERSIONS[kind]}/${toPlural(kind)}`, kind]),
)
export class KubernetesApi extends KubernetesObjects {
  readonly requests: ApiRequest[] = []
  readonly namespaces = new Set(['apps', 'other'])
  /** The namespaces that do not enforce the profile `restricted`. */
  readonly openNamespaces = new Set<string>()
  /** API groups that are not installed. */
  readonly missingGroups = new Set<string>([API_VERSIONS.VolumeSnapshot, API_VERSIONS.ScaledObject])
  /** The classes of VolumeSnapshots. Null: the agent may not list them. */
  snapshotClasses: object[] | null = []
  /** If set, a request needs a matching rule. */
  rules: Rule[] | null = null
  refuse: (request: ApiRequest) => Refusal | undefined = () => undefined
  /** Log lines by pod; those of the previous container by `pod/previous`. */
  readonly logs = new Map<string, string[]>()
  readonly #watches = new Set<http.ServerResponse>()
  readonly #followers = new Map<string, Set<http.ServerResponse>>()
  readonly sockets = new PodSockets()
  readonly #server = http
    .createServer((req, res) => void this.#handle(req, res))
    .on('upgrade', (req, socket, head) => this.#upgrade(req, socket, head))
  #oldestVersion = 0

  async open(): Promise<this> {
    await new Promise<void>(resolve => this.#server.listen(0, '127.0.0.1', resolve))
    return this
  }
  async close(): Promise<void> {
    this.cutWatches()
    this.sockets.close()
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }
  get config(): KubeConfig {
    const config = new KubeConfig()
    const server = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    config.loadFromClusterAndUser({ name: 'test', server, skipTLSVerify: true }, { name: 'agent', token: 'secret' })
    return config
  }

  writeLog(pod: string, line: string): void {
    const nanos = String(this.logs.get(pod)?.length ?? 0).padStart(6, '0')
    const stamped = `${new Date().toISOString().replace('Z', nanos)}Z ${line}`
    this.logs.set(pod, [...(this.logs.get(pod) ?? []), stamped])
    for (const follower of this.#followers.get(pod) ?? []) follower.write(`${stamped}\n`)
  }
  /** Writes a message of the node itself between the lines of an application. */
  writeNodeMessage(pod: string, line: string): void {
    for (const follower of this.#followers.get(pod) ?? []) follower.write(`${line}\n`)
  }
  cutLogs(cut = (follower: http.ServerResponse) => void follower.destroy()): void {
    for (const followers of this.#followers.values()) for (const follower of followers) cut(follower)
  }
  cutWatches(): void {
    for (const watch of this.#watches) watch.destroy()
  }
  /** Ends all watches, as a server ends old ones. */
  endWatches(): void {
    for (const watch of this.#watches) watch.end()
  }
  /** Forgets changes: a watch that starts from one is refused as expired. */
  expireChanges(): void {
    this.#oldestVersion = this.version
  }
  get watchCount(): number {
    return this.#watches.size
  }
  get followerCount(): number {
    return [...this.#followers.values()].reduce((sum, followers) => sum + followers.size, 0)
  }

  // ---- the API

  /** Reads and creates, as servers since 1.35 ask for both. */
  #upgrade(req: http.IncomingMessage, socket: Duplex, head: Buffer): void {
    const path = /^\/api\/v1\/namespaces\/([^/]+)\/pods\/([^/]+)\/(exec|portforward)$/
    const [, namespace, name, subresource] = path.exec(new URL(req.url!, 'http://cluster').pathname) ?? []
    try {
      if (!namespace || !name || !this.has('Pod', name, namespace))
        throw new ApiError({ code: 404, message: `pods "${name}" not found` })
      if (req.headers.authorization !== 'Bearer secret') throw new ApiError({ code: 401, message: 'Unauthorized' })
      for (const verb of ['get', 'create'])
        this.#permit({ verb, kind: 'Pod', name, namespace, force: false }, 'v1', `pods/${subresource}`)
      this.sockets.accept(req, socket, head, name, subresource!)
    } catch (fault) {
      const { code, message } = (fault as ApiError).refusal
      const body = JSON.stringify({ kind: 'Status', message, code })
      socket.end(`HTTP/1.1 ${code} Refused\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`)
    }
  }

  async #handle(req: http.IncomingMessage, res: http.ServerResponse): Promise<void> {
    try {
      await this.#answer(req, res)
    } catch (fault) {
      const refusal = fault instanceof ApiError ? fault.refusal : { code: 500, message: String(fault) }
      const { code, message, reason = 'Failure', details = {} } = refusal
      const status = {
        kind: 'Status',
        apiVersion: 'v1',
        metadata: {},
        status: 'Failure',
        message,
        reason,
        details,
        code,
      }
      sendJson(res, status, code)
    }
  }

  async #answer(req: http.IncomingMessage, res: http.ServerResponse): Promise<void> {
    const url = new URL(req.url!, 'http://cluster')
    if (url.pathname.endsWith('/volumesnapshotclasses')) {
      if (this.snapshotClasses) return sendJson(res, { items: this.snapshotClasses })
      throw new ApiError({ code: 403, reason: 'Forbidden', message: 'User "agent" cannot list volumesnapshotclasses' })
    }
    const match = /^\/(?:api|apis)\/((?:[\w.]+\/)?v\d\w*)(?:\/namespaces\/([^/]+)\/(\w+)(?:\/([^/]+)(\/log)?)?)?$/.exec(
      url.pathname,
    )
    if (!match) throw new ApiError({ code: 404, message: 'the server could not find the requested resource' })
    if (req.headers.authorization !== 'Bearer secret') throw new ApiError({ code: 401, message: 'Unauthorized' })
    const [, version, namespace, resource, name, log] = match
    if (namespace === undefined) return sendJson(res, discoverResources(version!, this.missingGroups))
    const kind = KIND_BY_RESOURCE[`${version}/${resource}`]
    if (!kind) throw new ApiError({ code: 404, message: 'the server could not find the requested resource' })
    const query = url.searchParams
    const watching = query.get('watch') === 'true'
    const verb = verbOf(req.method!, watching, name)
    this.#permit(
      { verb, kind, name, namespace, force: query.get('force') === 'true' },
      version!,
      `${resource}${log ?? ''}`,
    )
    if (log) return this.#log(name!, query, res)
    if (watching) return this.#watch(kind, namespace, query, res)
    if (verb === 'list') return this.#list(kind, namespace, query, res)

    if (verb === 'create') return sendJson(res, this.#create(JSON.parse(await readBody(req)), namespace, query), 201)

    const existing = this.objects.get(`${kind}/${namespace}/${name}`)
    const missing = new ApiError({ code: 404, reason: 'NotFound', message: `${resource} "${name}" not found` })
    if (verb === 'patch') {
      if (!this.namespaces.has(namespace))
        throw new ApiError({ code: 404, reason: 'NotFound', message: `namespaces "${namespace}" not found` })
      const sent = JSON.parse(await readBody(req)) as Stored
      const manager = query.get('fieldManager')!
      if (req.headers['content-type'] === 'application/apply-patch+yaml') {
        if (!existing) this.#permit({ verb: 'create', kind, name, namespace, force: false }, version!, resource!)
        const [force, dry] = [query.get('force') === 'true', query.get('dryRun') === 'All']
        return sendJson(res, this.apply(sent, manager, force, dry), existing ? 200 : 201)
      }
      if (!existing) throw missing
      return sendJson(res, this.put(sent as never, manager))
    }
    if (!existing) throw missing
    if (verb === 'delete') {
      const { preconditions } = JSON.parse((await readBody(req)) || '{}')
      if (preconditions?.uid && preconditions.uid !== existing.object.metadata.uid)
        throw new ApiError({ code: 409, reason: 'Conflict', message: 'the UID in the precondition does not match' })
      this.remove(existing.object)
      return sendJson(res, { kind: 'Status', apiVersion: 'v1', status: 'Success' })
    }
    sendJson(res, existing.object)
  }

  /** Creates pods in dry runs only: the engine applies everything else. */
  #create(pod: Stored, namespace: string, query: URLSearchParams): Stored {
    if (query.get('dryRun') !== 'All') throw new ApiError({ code: 400, message: 'only dry runs are supported' })
    if (!this.namespaces.has(namespace))
      throw new ApiError({ code: 404, reason: 'NotFound', message: `namespaces "${namespace}" not found` })
    const isPrivileged = JSON.stringify(pod.spec).includes('"privileged":true')
    if (isPrivileged && !this.openNamespaces.has(namespace)) {
      const message =
        `pods "${pod.metadata.name}" is forbidden: violates PodSecurity "restricted:latest": privileged ` +
        `(container "check" must not set securityContext.privileged=true)`
      throw new ApiError({ code: 403, reason: 'Forbidden', message })
    }
    return pod
  }

  #permit(request: ApiRequest, version: string, resource: string): void {
    this.requests.push(request)
    const group = version.includes('/') ? version.split('/')[0]! : ''
    const allowed = (rule: Rule) =>
      rule.apiGroups.includes(group) && rule.resources.includes(resource) && rule.verbs.includes(request.verb)
    const scope = `in API group "${group}" in the namespace "${request.namespace}"`
    const why = `cannot ${request.verb} resource "${resource}" ${scope}`
    if (this.rules && !this.rules.some(allowed))
      throw new ApiError({ code: 403, reason: 'Forbidden', message: `${resource} is forbidden: User "agent" ${why}` })
    const refusal = this.refuse(request)
    if (refusal) throw new ApiError(refusal)
  }

  #list(kind: Kind, namespace: string, query: URLSearchParams, res: http.ServerResponse): void {
    const [field, value] = query.get('fieldSelector')?.split('=') ?? []
    const matching = this.all(kind).filter(
      object =>
        object.metadata.namespace === namespace &&
        matchesLabels(object, parseSelector(query)) &&
        (field === undefined || field.split('.').reduce((at: Json, key) => (at as Fields)[key]!, object) === value),
    )
    const from = Number(query.get('continue') ?? 0)
    const to = Math.min(matching.length, from + Number(query.get('limit') ?? matching.length))
    const items = matching.slice(from, to).map(({ apiVersion: _, kind: __, ...object }) => object)
    const metadata = { resourceVersion: String(this.version), ...(to < matching.length && { continue: String(to) }) }
    sendJson(res, { apiVersion: API_VERSIONS[kind], kind: `${kind}List`, metadata, items })
  }

  #watch(kind: Kind, namespace: string, query: URLSearchParams, res: http.ServerResponse): void {
    res.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
    const from = Number(query.get('resourceVersion') || this.version)
    if (from < this.#oldestVersion) {
      const object = {
        kind: 'Status',
        apiVersion: 'v1',
        status: 'Failure',
        reason: 'Expired',
        code: 410,
        message: 'too old',
      }
      return void res.end(`${JSON.stringify({ type: 'ERROR', object })}\n`)
    }
    const send = ({ type, object, version }: Change) => {
      if (
        object.kind !== kind ||
        object.metadata.namespace !== namespace ||
        !matchesLabels(object, parseSelector(query))
      )
        return
      if (version > from) res.write(`${JSON.stringify({ type, object })}\n`)
    }
    for (const change of this.changes) send(change)
    this.#watches.add(res)
    this.listeners.add(send)
    res.once('close', () => {
      this.#watches.delete(res)
      this.listeners.delete(send)
    })
  }

  #log(pod: string, query: URLSearchParams, res: http.ServerResponse): void {
    const lines = this.logs.get(query.get('previous') === 'true' ? `${pod}/previous` : pod) ?? []
    if (query.get('follow') !== 'true') {
      res.writeHead(200, { 'content-type': 'text/plain' })
      return void res.end(lines.slice(-Number(query.get('tailLines') ?? lines.length)).join('\n'))
    }
    res.writeHead(200, { 'content-type': 'text/plain' }).flushHeaders()
    // The kubelet compares whole seconds.
    const since = query.get('sinceTime')!.slice(0, 19)
    for (const line of lines) if (line >= since) res.write(`${line}\n`)
    const followers = this.#followers.get(pod) ?? new Set()
    this.#followers.set(pod, followers.add(res))
    res.once('close', () => followers.delete(res))
  }
}

const VERBS: Record<string, string> = { POST: 'create', PATCH: 'patch', DELETE: 'delete', PUT: 'update' }
const verbOf = (method: string, watching: boolean, name: string | undefined) =>
  method === 'GET' ? (watching ? 'watch' : name ? 'get' : 'list') : VERBS[method]!

const parseSelector = (query: URLSearchParams) =>
  Object.fromEntries(
    (query.get('labelSelector') ?? '')
      .split(',')
      .filter(Boolean)
      .map(part => part.split('=')),
  )

function discoverResources(version: string, unknown: Set<string>): Json {
  const kinds = (Object.keys(API_VERSIONS) as Kind[]).filter(
    kind => API_VERSIONS[kind] === version && !unknown.has(version),
  )
  if (kinds.length === 0) throw new ApiError({ code: 404, message: 'the server could not find the requested resource' })
  const resources = kinds.map(kind => ({ name: toPlural(kind), kind, namespaced: true, singularName: '', verbs: [] }))
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: version, resources }
}
function sendJson(res: http.ServerResponse, body: unknown, code = 200): void {
  res.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
async function readBody(req: http.IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of req.setEncoding('utf8')) text += chunk
  return text
}
