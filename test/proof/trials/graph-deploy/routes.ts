// Routes of an application beside its graphs, in both languages, from a folder by our command line.
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { check, note } from '../../support/trial.ts'

const EXAMPLES = join(import.meta.dirname, '../../../../examples')
const PYTHON = `from fastapi import FastAPI

app = FastAPI()


@app.get("/hello/{name}")
def hello(name: str) -> dict:
    return {"hello": name}
`
const JAVASCRIPT = `export const app = {
  fetch: request => Response.json({ hello: new URL(request.url).pathname.split('/').at(-1) }),
}
`
const APPLICATIONS = {
  'graph-python': { file: 'routes.py', code: PYTHON, dependencies: ['.', 'fastapi'] },
  'graph-javascript': { file: 'routes.mjs', code: JAVASCRIPT, dependencies: undefined },
}

type Slipway = (...args: string[]) => Promise<string>

export async function checkRoutes(work: string, slipway: Slipway): Promise<void> {
  for (const [example, { file, code, dependencies }] of Object.entries(APPLICATIONS)) {
    const name = `routes-${example}`
    const folder = join(work, name)
    cpSync(join(EXAMPLES, example), folder, { recursive: true })
    writeFileSync(join(folder, file), code)
    const path = join(folder, 'langgraph.json')
    const known = JSON.parse(readFileSync(path, 'utf8'))
    writeFileSync(path, JSON.stringify({ ...known, dependencies, http: { app: `./${file}:app` } }))
    const since = performance.now()
    const output = await slipway('deploy', folder, '--create', '--name', name, '--yes')
    note(`${name}: ${((performance.now() - since) / 1000).toFixed(1)} s from the command to its end`)
    const url = /"local_url": ?"([^"]+)"/.exec(output)?.[1]
    check(`${name}: it is deployed`, url !== undefined, output)
    if (url === undefined) continue
    check(`${name}: its routes need the key`, (await fetch(`${url}/hello/you`)).status === 401)
    const { id } = JSON.parse(await slipway('status', name))
    const revealed = await slipway('api', 'GET', `/v2/deployments/${id}?reveal=true&reveal_only=GRAPHS_API_KEY`)
    const headers = { 'X-Api-Key': JSON.parse(revealed).application_key as string }
    const answer = await (await fetch(`${url}/hello/you`, { headers })).text()
    check(`${name}: a route answers`, answer.replaceAll(' ', '') === '{"hello":"you"}', answer)
    const body = JSON.stringify({ assistant_id: 'agent', input: { messages: [{ role: 'user', content: 'hi' }] } })
    const options = { method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body }
    const values = await (await fetch(`${url}/runs/wait`, options)).text()
    check(`${name}: and so do its graphs`, values.includes('You said: hi'), values)
  }
}
