// The least that a Worker can ask the database: `select 1` as the Neon driver sends it, without the driver.
type Env = { DATABASE_URL: string; DATABASE_GATEWAY_URL: string }

const body = JSON.stringify({ query: 'select 1', params: [] })

export default {
  async fetch(_request: Request, env: Env) {
    const headers = {
      'Neon-Connection-String': env.DATABASE_URL,
      'Neon-Raw-Text-Output': 'true',
      'Neon-Array-Mode': 'true',
    }
    const answer = await fetch(env.DATABASE_GATEWAY_URL, { method: 'POST', headers, body })
    return new Response(await answer.text(), { status: answer.status })
  },
}
