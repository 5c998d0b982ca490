// Runs the commands of the pages of languages whose tools are installed, on an installation as `npm run dev` starts it.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { makeCheckout, runPage } from '../../support/page-commands.ts'
import { check, findMissing, note, runTrial, skipped } from '../support/trial.ts'
import { HOSTS } from '../support/two-hosts.ts'

const PAGES = 'docs/deploy/languages'
/** Programs that have to be there. The agent brings uv, npm and Deno itself, from the registries of PyPI and npm. */
const TOOLS: Record<string, string> = { go: 'go', java: 'mvn', python: 'python3', ruby: 'ruby', rust: 'cargo' }
/** A first build may download hundreds of megabytes, and compiles a standard library. */
const TIMEOUT_MINUTES = 20

const lastLines = (text: string) => text.trim().split('\n').slice(-12).join('\n        ')

await runTrial(async () => {
  await using cleanup = new AsyncDisposableStack()
  const { folder } = await HOSTS.workerd(cleanup)
  const checkout = join(folder, 'checkout')
  makeCheckout(checkout, join(folder, 'home'))
  const only = process.argv
    .find(argument => argument.startsWith('--only='))
    ?.slice('--only='.length)
    .split(',')
  for (const file of readdirSync(join(import.meta.dirname, '../../..', PAGES))) {
    const language = file.slice(0, -'.md'.length)
    if (only && !only.includes(language)) continue
    const missing = TOOLS[language] && findMissing(TOOLS[language])
    if (missing) {
      skipped(`${language}: ${missing}`)
      continue
    }
    const started = Date.now()
    const options = { cwd: checkout, timeout: TIMEOUT_MINUTES * 60_000 }
    const differences = await runPage(`${PAGES}/${language}`, options).catch(error => [String(error)])
    check(`${language}: its page prints what it shows`, differences.length === 0, lastLines(differences.join('\n')))
    note(`${((Date.now() - started) / 1000).toFixed(1)} s`)
  }
})
