// Slipway's response and log line, written by hand: what they cost without a framework.
type Env = { BODY: string; HEADERS: string }

let cachedHeaders: Record<string, string> | undefined

export default {
  fetch(request: Request, env: Env) {
    cachedHeaders ??= JSON.parse(env.HEADERS) as Record<string, string>
    const requestId = crypto.randomUUID()
    const { pathname: path } = new URL(request.url)
    const line = { level: 'info', request_id: requestId, method: request.method, path, status: 200, ms: 0 }
    console.log(JSON.stringify(line))
    return new Response(env.BODY, { headers: { ...cachedHeaders, 'x-request-id': requestId } })
  },
}
