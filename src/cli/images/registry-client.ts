// Requests to a repository of a registry, with the tokens that the registry asks for.
import { CommandFailure, EXIT } from '../failure.ts'
import type { Credentials } from './image-name.ts'

type Access = {
  host: string
  repository: string
  actions: string
  credentials: Credentials | undefined
  signal: AbortSignal
}
type RegistryRequest = {
  /** A path below the repository, or the URL that the registry has named. */
  to: string | URL
  method?: string
  headers?: Record<string, string>
  body?: BodyInit | null
  /** Statuses that are answers, and no failures. */
  expects: number[]
}
export type RegistryClient = ReturnType<typeof createRegistryClient>

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/
const DEFAULT_TOKEN_SECONDS = 60
/** Renewed after half of its time, so that a large blob can still be sent with it. */
const HALF_MS = 500

export function createRegistryClient({ host, repository, actions, credentials, signal }: Access) {
  // A registry on this machine has no certificate. Docker decides the same.
  const origin = `${LOOPBACK.test(host) ? 'http' : 'https'}://${host}`
  const base = `${origin}/v2/${repository}/`
  let challenge: string | null = null
  let authorization: { value: string; renewAt: number } | undefined

  async function authorize(): Promise<void> {
    if (challenge === null || (authorization && Date.now() < authorization.renewAt)) return
    const basic =
      credentials && `Basic ${Buffer.from(`${credentials.username}:${credentials.password}`).toString('base64')}`
    if (/^basic\b/i.test(challenge)) {
      if (basic) authorization = { value: basic, renewAt: Number.POSITIVE_INFINITY }
      return
    }
    const realm = URL.parse(/\brealm="([^"]*)"/i.exec(challenge)?.[1] ?? '')
    if (!realm || (realm.protocol !== 'https:' && !origin.startsWith('http:')))
      throw refused('It names no token service.')
    const service = /\bservice="([^"]*)"/i.exec(challenge)?.[1]
    if (service !== undefined) realm.searchParams.set('service', service)
    realm.searchParams.set('scope', `repository:${repository}:${actions}`)
    const response = await connect(realm, { headers: basic ? { Authorization: basic } : {}, signal })
    if (!response.ok) throw refused(`Its token service answered ${response.status}.`)
    const { token, access_token, expires_in = DEFAULT_TOKEN_SECONDS } = Object(await response.json())
    authorization = { value: `Bearer ${token ?? access_token}`, renewAt: Date.now() + expires_in * HALF_MS }
  }

  async function send({ to, method = 'GET', headers = {}, body = null, expects }: RegistryRequest): Promise<Response> {
    const url = new URL(to, base)
    for (let attempt = 1; ; attempt++) {
      await authorize()
      const isOwn = url.origin === origin
      const all = { ...headers, ...(isOwn && authorization && { Authorization: authorization.value }) }
      const response = await connect(url, { method, headers: all, body, signal, duplex: 'half' } as RequestInit)
      if (expects.includes(response.status)) return response
      await response.body?.cancel()
      const asked = response.headers.get('WWW-Authenticate')
      const canRepeat = !(body instanceof ReadableStream)
      if (response.status !== 401 || asked === null || attempt > 1 || !canRepeat)
        throw refused(`It answered ${response.status} to ${method} ${url.pathname}.`, response.status)
      challenge = asked
      authorization = undefined
    }
  }

  async function connect(url: URL, options: RequestInit): Promise<Response> {
    try {
      return await fetch(url, options)
    } catch (error) {
      signal.throwIfAborted()
      const { cause, message } = error as Error & { cause?: Error }
      throw refused(`${url.host} cannot be reached: ${cause?.message || message}.`)
    }
  }

  function refused(sentence: string, status?: number): CommandFailure {
    const message = `The registry ${host} refused ${repository}. ${sentence}`
    const remedy =
      [401, 403, 404].includes(status ?? 0) && credentials === undefined
        ? ' Check the name. A private image needs a password in ~/.docker/config.json, as `docker login` writes it ' +
          'without a credential helper.'
        : ''
    return new CommandFailure(EXIT.failed, 'registry_refused', message + remedy)
  }

  return { send }
}
