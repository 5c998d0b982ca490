// The published tracing client in two versions, connected to the app, and the requests that it sends.
import { getApp, newTenant, type Tenant } from './app.ts'

type Module = typeof import('langsmith')
type Client = InstanceType<Module['Client']>
/** Both versions have what the tests use of the newer one. */
const MODULES = {
  '0.12.0': async () => ({
    ...(await import('langsmith')),
    ...(await import('langsmith/traceable')),
    ...(await import('langsmith/run_trees')),
  }),
  '0.7.0': async () =>
    ({
      ...(await import('langsmith-0-7')),
      ...(await import('langsmith-0-7/traceable')),
      ...(await import('langsmith-0-7/run_trees')),
    }) as unknown as ReturnType<(typeof MODULES)['0.12.0']>,
}
export type Version = keyof typeof MODULES
export const VERSIONS = Object.keys(MODULES) as Version[]

export const isWorker = globalThis.navigator?.userAgent === 'Cloudflare-Workers'

export type SentRequest = { method: string; path: string; encoding: string | null; status: number; text: string }
type Options = {
  tenant?: Tenant
  apiUrl?: string
  /** Changes what the client reads at /info. */
  info?: { batch_ingest_config?: object; instance_flags?: object }
  /** Answers in place of the app. */
  answer?: (path: string, request: Request) => Response | undefined
}

export async function connectClient(version: Version, options: Options = {}) {
  const { apiUrl = 'http://slipway.test', info, answer = () => undefined } = options
  const module = await MODULES[version]()
  const tenant = options.tenant ?? (await newTenant())
  const requests: SentRequest[] = []
  const fetchImplementation = async (input: string | URL | Request, init?: RequestInit) => {
    const request = new Request(input, init)
    const path = new URL(request.url).pathname
    const encoding = request.headers.get('Content-Encoding')
    const response = answer(path, request) ?? (await getApp().fetch(request))
    const text = await response.clone().text()
    requests.push({ method: request.method, path, encoding, status: response.status, text: response.ok ? '' : text })
    return info && path.endsWith('/info') ? Response.json(mergeInfo(JSON.parse(text), info)) : response
  }
  const client = new module.Client({ apiUrl, apiKey: tenant.key, fetchImplementation: fetchImplementation as never })
  // 250 ms by default.
  Object.assign(client, { autoBatchAggregationDelayMs: 1 })
  return { ...module, client: client as Client, tenant, requests }
}

const mergeInfo = (read: Record<string, object>, changes: Record<string, object>) =>
  Object.fromEntries(
    Object.entries(read).map(([name, value]) => [name, changes[name] ? { ...value, ...changes[name] } : value]),
  )
