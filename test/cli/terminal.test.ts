// `slipway` on a terminal: tables, colors, and questions. The pseudo-terminal is util-linux's `script`.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { newTenant } from '../support/app.ts'
import { keyEnv, makeFolder, serveApp, startCliOnTerminal } from '../support/cli.ts'
import { hasTerminal } from '../support/cli-process.ts'
import { waitFor } from '../support/commands.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { listRevisions, reportRevision } from '../support/deployments.ts'

describe.runIf(hasTerminal)('on a terminal', () => {
  let url: string
  beforeAll(async () => {
    url = (await serveApp()).url
  })
  const newShop = async () => {
    const tenant = await newTenant()
    const cwd = makeFolder({ 'package.json': '{"name": "shop", "scripts": {"start": "node ."}}' })
    return { tenant, options: { cwd, env: keyEnv(url, tenant) } }
  }

  it('a first deploy shows its plan, asks one question, and ends with the URL', async () => {
    const { tenant, options } = await newShop()
    const { exited, type, screen } = startCliOnTerminal(['deploy'], options)
    await waitFor(() => screen().includes('[Y/n]'))
    expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
    type('\r')
    const revision = await waitFor(async () => {
      const { resources } = (await tenant.get('/v2/deployments')).body
      return resources[0] && (await listRevisions(tenant, resources[0].id)).find(({ number }) => number === 1)
    })
    const ref = { deployment_id: revision.deployment_id, revision_id: revision.id }
    await reportRevision(ref, 'deployed', { url: 'http://shop.localhost:9000' })
    const { code, screen: shown } = await exited
    expect(code).toBe(0)
    expect(shown).toContain('\x1b[')
    const lines = stripVTControlCharacters(shown).split(/\r?\n/)
    expect(lines.filter(line => line.includes('[Y/n]')).length).toBe(1)
    expect(lines.filter(line => line.startsWith('{'))).toEqual([])
    expect(lines.findLast(line => line.trim() !== '')).toContain('http://shop.localhost:9000')
  })

  it('lists several npm run dev to choose from, and shows the chosen one first', async () => {
    const { tenant, options } = await newShop()
    const folder = join(options.cwd, '.config/dev')
    fs.mkdirSync(folder, { recursive: true })
    for (const [i, at] of [url, 'http://127.0.0.1:9'].entries()) {
      const file = join(folder, `${i}.json`)
      fs.writeFileSync(file, JSON.stringify({ url: at, api_key: tenant.key, pid: process.pid }))
      fs.utimesSync(file, i, i)
    }
    const { exited, type, screen } = startCliOnTerminal(['list'], { cwd: options.cwd })
    await waitFor(() => screen().includes('[1-2]'))
    type('2\r')
    const { code, screen: shown } = await exited
    expect(code).toBe(0)
    const lines = stripVTControlCharacters(shown).split(/\r?\n/)
    const chosen = lines.findIndex(line => line.startsWith('Installation '))
    expect(lines[chosen]).toContain(url)
    expect(lines.findIndex(line => line.startsWith('No deployments'))).toBeGreaterThan(chosen)
  })

  it.each([
    ['n\r', 1],
    ['\x03', 130],
  ])('the answer %j to the question of a first deploy leaves everything as it was', async (answer, exitCode) => {
    const { tenant, options } = await newShop()
    const { exited, type, screen } = startCliOnTerminal(['deploy'], options)
    await waitFor(() => screen().includes('[Y/n]'))
    type(answer)
    expect((await exited).code).toBe(exitCode)
    expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
  })

  it('a rollback shows the changes, the secrets by name and the hold before it asks, within 80 columns', async () => {
    const { tenant, options } = await newShop()
    const { id } = (await tenant.post('/v2/deployments', makeImageBody({ name: 'shop' }))).body
    const image_uri = `registry.example.com/${'team/'.repeat(12)}app:second`
    const secrets = [{ name: 'TOKEN', value: 'second' }]
    await tenant.patch(`/v2/deployments/${id}`, { source_revision_config: { image_uri }, secrets })
    const { exited, type, screen } = startCliOnTerminal(['rollback', 'shop', '1'], options)
    await waitFor(() => screen().includes('[y/N]'))
    type('n\r')
    expect((await exited).code).toBe(1)
    const lines = stripVTControlCharacters(screen()).split(/\r?\n/)
    const question = lines.findIndex(line => line.includes('[y/N]'))
    for (const shown of [
      /revision 2.*→ revision 1/,
      /TOKEN.*2 → 1/,
      /slipway release shop/,
      /image_uri|source_revis/,
    ]) {
      const place = lines.findIndex(line => shown.test(line))
      expect([place >= 0, place < question], `${shown}`).toEqual([true, true])
    }
    expect((await listRevisions(tenant, id)).length).toBe(2)
  })

  it('tables fit the width of the terminal', async () => {
    const { tenant, options } = await newShop()
    await tenant.post('/v2/deployments', makeImageBody({ name: 'a'.repeat(63) }))
    const { code, screen } = await startCliOnTerminal(['list'], options).exited
    const lines = stripVTControlCharacters(screen).split(/\r?\n/)
    expect([code, lines.filter(line => line.length > 80)]).toEqual([0, []])
    expect(lines[2]).toMatch(/^a+… /)
  })

  it('Ctrl-C at a hidden prompt ends the command', async () => {
    const { exited, type, screen } = startCliOnTerminal(
      ['login', '--url', url, '--with-key'],
      (await newShop()).options,
    )
    await waitFor(() => screen().includes('API key'))
    type('hush\x03')
    expect((await exited).code).toBe(130)
  })

  it('a secret that is typed is not shown', async () => {
    const { tenant, options } = await newShop()
    const body = { name: 'shop', source: 'internal_template', source_config: { template_id: 'web-service' } }
    const secrets = [{ name: 'TOKEN', value: 'old' }]
    const { id } = (await tenant.post('/v2/deployments', { ...body, source_revision_config: {}, secrets })).body
    const args = ['env', 'set', 'shop', 'TOKEN', '--yes', '--detach']
    const { exited, type, screen } = startCliOnTerminal(args, options)
    await waitFor(() => screen().includes('Value of TOKEN'))
    type('hush-hush\r')
    const { code, screen: shown } = await exited
    expect([code, shown.includes('hush-hush')]).toEqual([0, false])
    const { secrets: stored } = (await tenant.get(`/v2/deployments/${id}?reveal=true`)).body
    expect(stored).toEqual([{ name: 'TOKEN', value: 'hush-hush' }])
  })
})
