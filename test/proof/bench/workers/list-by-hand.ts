// The list of deployments, written by hand: what it costs without a framework. It hashes the key, sends the statements
// of Slipway's list to the gateway, and answers the rows as objects with Slipway's headers and log line.
type Env = Record<'DATABASE_URL' | 'DATABASE_GATEWAY_URL' | 'STATEMENTS' | 'KEY_HASH' | 'HEADERS', string>
type Rows = { fields: { name: string; dataTypeID: number }[]; rows: (string | null)[][] }

const [JSON_TYPE, JSONB_TYPE] = [114, 3802]

let prepared: { statements: [before: string, after: string]; headers: Record<string, string> } | undefined

export default {
  async fetch(request: Request, env: Env) {
    prepared ??= {
      statements: env.STATEMENTS.split(env.KEY_HASH) as [string, string],
      headers: JSON.parse(env.HEADERS),
    }
    const { statements, headers } = prepared
    const started = Date.now()
    const { pathname: path, searchParams } = new URL(request.url)
    const key = new TextEncoder().encode(request.headers.get('X-Api-Key') ?? '')
    const hash = toHex(await crypto.subtle.digest('SHA-256', key))
    const answer = await fetch(env.DATABASE_GATEWAY_URL, {
      method: 'POST',
      headers: {
        'Neon-Connection-String': env.DATABASE_URL,
        'Neon-Raw-Text-Output': 'true',
        'Neon-Array-Mode': 'true',
      },
      body: statements.join(hash),
    })
    const { results } = (await answer.json()) as { results: Rows[] }
    const { fields, rows } = results.at(-1)!
    const limit = Number(searchParams.get('limit') ?? 20)
    const resources = rows.slice(0, limit).map(row => {
      const resource: Record<string, unknown> = {}
      for (const [i, { name, dataTypeID }] of fields.entries()) {
        const isJson = dataTypeID === JSON_TYPE || dataTypeID === JSONB_TYPE
        const text = row[i]!
        resource[name] = isJson && text !== null ? JSON.parse(text) : text
      }
      return resource
    })
    const body = JSON.stringify({ resources, offset: rows.length > limit ? limit : null })
    const requestId = crypto.randomUUID()
    const ms = Date.now() - started
    const [organization_id, tenant_id, actor_id] = results[0]!.rows[0] ?? []
    console.log(
      JSON.stringify({
        level: 'info',
        request_id: requestId,
        method: request.method,
        path,
        status: 200,
        ms,
        organization_id,
        tenant_id,
        actor_id,
      }),
    )
    return new Response(body, { headers: { ...headers, 'x-request-id': requestId } })
  },
}

const toHex = (bytes: ArrayBuffer): string =>
  Array.from(new Uint8Array(bytes), byte => byte.toString(16).padStart(2, '0')).join('')
