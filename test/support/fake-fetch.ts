// Foreign servers on their real host names, offline: a fetch that answers for the given origins and refuses others.
type Responder = (request: Request) => Response | Promise<Response>
/** Answers by path, or by method and path. A number is a status; anything but a function is JSON. */
export type Site = Responder | { [path: string]: unknown }
type RecordedRequest = { method: string; url: string; headers: Headers; body: string; refused: boolean }
export type FakeFetch = typeof fetch & { requests: RecordedRequest[] }

/** An unknown path is 404. An unknown host cannot be reached. */
export function makeFakeFetch(sites: Record<string, Site>): FakeFetch {
  const requests: RecordedRequest[] = []
  const fakeFetch = async (input: Request | string | URL, init?: RequestInit): Promise<Response> => {
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
    if (site === undefined) throw new TypeError(`fetch failed: no server at ${origin}`)
    // A site may never answer.
    const aborted = new Promise<never>((_, reject) =>
      init?.signal?.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError'))),
    )
    return Promise.race([typeof site === 'function' ? site(request) : respondFromSite(site, request), aborted])
  }
  return Object.assign(fakeFetch as typeof fetch, { requests })
}

async function respondFromSite(site: { [path: string]: unknown }, request: Request): Promise<Response> {
  const { pathname } = new URL(request.url)
  const names = [`${request.method} ${pathname}`, pathname]
  const responder = names
    .map(name => (Object.hasOwn(site, name) ? site[name] : undefined))
    .find(one => one !== undefined)
  if (typeof responder === 'function') return responder(request)
  if (responder === undefined || typeof responder === 'number')
    return new Response(null, { status: (responder as number) ?? 404 })
  return Response.json(responder)
}
