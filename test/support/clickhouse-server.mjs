// ClickHouse's HTTP interface over chdb, which is the engine in this process: enough of it for its official client.
// Started by `clickhouse.ts` with the folders of the package and of the data. Prints its URL once it listens.
import { createServer } from 'node:http'
import { createRequire } from 'node:module'

const [packageFolder, dataFolder] = process.argv.slice(2)
const { Session } = createRequire(`${packageFolder}/`)('chdb')
const session = new Session(dataFolder)

const NO_SETTINGS = /^(query|query_id|database|session_id|user|password|role|wait_end_of_query)$/
const quote = text => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** The fields of a multipart form. */
function readForm(body, boundary) {
  return Object.fromEntries(
    body
      .split(`--${boundary}`)
      .slice(1, -1)
      .map(part => {
        const [head, ...content] = part.slice(2, -2).split('\r\n\r\n')
        return [/name="([^"]*)"/.exec(head)[1], content.join('\r\n\r\n')]
      }),
  )
}

/** Parameters stay set in the session, so both are one call. */
async function answer(url, headers, body) {
  const given = Object.fromEntries(url.searchParams)
  const boundary = /boundary=(.*)$/.exec(headers['content-type'] ?? '')?.[1]
  const fields = boundary ? { ...given, ...readForm(body, boundary) } : given
  const settings = Object.entries(fields).filter(([name]) => !NO_SETTINGS.test(name) && !name.startsWith('param_'))
  const clause = settings.length > 0 ? ` SETTINGS ${settings.map(([name, value]) => `${name}=${quote(value)}`)}` : ''
  const parameters = Object.entries(fields)
    .filter(([name]) => name.startsWith('param_'))
    .map(([name, value]) => `set ${name}=${quote(value)};`)
    .join('\n')
  const database = fields.database && fields.database !== 'default' ? `use ${fields.database};\n` : ''
  if (given.query) return run(`${database}${given.query.replace(/ FORMAT (\w+)$/, `${clause} FORMAT $1`)}\n${body}`)
  return run(`${database}${parameters}\n${(fields.query ?? body).trim()}${clause}`)
}

const run = async query => (await session.queryAsync(query)).bytes()

let last = Promise.resolve()
const server = createServer({ maxHeaderSize: 1024 * 1024 }, async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const body = Buffer.concat(chunks).toString()
  const url = new URL(request.url, 'http://localhost')
  // One connection of chdb runs one query at a time.
  const current = last.then(() => answer(url, request.headers, body))
  last = current.catch(() => {})
  try {
    const bytes = await current
    response.end(bytes)
  } catch (error) {
    const message = String(error.message)
    const code = /Code: (\d+)/.exec(message)?.[1] ?? '0'
    response.writeHead(500, { 'X-ClickHouse-Exception-Code': code }).end(message)
  }
})
server.listen(Number(process.env.CLICKHOUSE_PORT ?? 0), '127.0.0.1', () =>
  console.log(`http://127.0.0.1:${server.address().port}`),
)
process.on('disconnect', () => process.exit())
