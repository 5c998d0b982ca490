// Foreign servers on their real host names, offline: a fetch that answers for the origins it is given and refuses every other.
type Responder = (request: Request) => Response | Promise<Response>
/** By path, or by method and path. A number is a status, anything else but a function is JSON. */
export type Site = Responder | { [path: string]: unknown }
export type RecordedRequest = { method: string; url: string; headers: Headers; body: string; refused: boolean }
export type FakeFetch = typeof fetch & { requests: RecordedRequest[] }

/** What is no site is 404 on a host that is there; a host that is not there cannot be reached. */
export function makeFakeFetch(sites: Record<string, Site>): FakeFetch {
  const requests: RecordedRequest[] = []
  const ask = async (input: Request | string | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init)
    const { method, url, headers } = request
    const { origin } = new URL(url)
    const site = Object.hasOwn(sites, origin) ? sites[origin] : undefined
    requests.push({
      method,
      url,
      headers,
      body: new TextDecoder().decode(await request.clone().arrayBuffer()),
      refused: site === undefined,
    })
    if (site === undefined) throw new TypeError(`fetch failed: nothing stands at ${origin}`)
    // One that hangs is left when the caller leaves.
    const left = new Promise<never>((_, reject) =>
      init?.signal?.addEventListener('abort', () => reject(new DOMException('left', 'AbortError'))),
    )
    return Promise.race([typeof site === 'function' ? site(request) : respondFromSite(site, request), left])
  }
  return Object.assign(ask as typeof fetch, { requests })
}

async function respondFromSite(site: { [path: string]: unknown }, request: Request): Promise<Response> {
  const { pathname } = new URL(request.url)
  const names = [`${request.method} ${pathname}`, pathname]
  const found = names.map(name => (Object.hasOwn(site, name) ? site[name] : undefined)).find(one => one !== undefined)
  if (typeof found === 'function') return found(request)
  if (found === undefined || typeof found === 'number') return new Response(null, { status: (found as number) ?? 404 })
  return Response.json(found)
}
