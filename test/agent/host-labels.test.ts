// Labels that the control plane gives: the deployment's own, that of its branch, and one of each commit.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { RevisionRef, RevisionSpec } from '../../src/agent/engine.ts'
import { labelOwnersOf, savedLabels } from '../../src/agent/engines/local/host-labels.ts'
import { waitFor } from '../support/commands.ts'
import {
  closeEngines,
  makeRevisionRef,
  makeServerCode,
  makeTempFolder,
  makeUnit,
  openEngine,
  requestRouter,
  writeApplication,
} from '../support/process-engine.ts'

let home: string
beforeEach(() => {
  home = fs.realpathSync(makeTempFolder())
})
afterEach(async () => {
  await closeEngines()
  fs.rmSync(home, { recursive: true, force: true, maxRetries: 9 })
})

test('lead to what serves; a commit that serves no more is answered with 410 and the newest address', async () => {
  const { engine } = await openEngine(home)
  const first = makeRevisionRef()
  const second = { ...first, revision_id: randomUUID() }
  const labels = [
    { label: 'cart--shop', revision_id: null },
    { label: '1111111--cart--shop', revision_id: first.revision_id },
  ]
  const serve = async (ref: RevisionRef, text: string, host_labels: RevisionSpec['host_labels']) => {
    const unit = makeUnit(ref, { name: 'cart--shop', host_labels: host_labels! })
    await engine.start(unit, writeApplication(home, ref.revision_id, makeServerCode(text)))
    await waitFor(async () => {
      const { running } = await engine.observe(ref.deployment_id)
      return running.some(one => one.revision_id === ref.revision_id && one.phase === 'healthy')
    })
    await engine.route(unit)
  }
  await serve(first, 'one', labels)
  const { url } = await engine.observe(first.deployment_id)
  expect(new URL(url!).hostname).toBe('cart--shop.localhost')
  const at = (label: string) => requestRouter(url!, '/', { headers: { host: `${label}.localhost` } })
  expect((await at('1111111--cart--shop')).body).toBe('one')
  await serve(second, 'two', [...labels, { label: '2222222--cart--shop', revision_id: second.revision_id }])
  expect((await at('cart--shop')).body).toBe('two')
  expect((await at('2222222--cart--shop')).body).toBe('two')
  const gone = await at('1111111--cart--shop')
  expect([gone.status, JSON.parse(gone.body).detail]).toEqual([410, expect.stringContaining(url!)])
  expect((await at('3333333--cart--shop')).status).toBe(404)
})

test('move to the newest claim of a workspace, and never to another workspace', () => {
  const alias = savedLabels([{ label: 'cart--shop', revision_id: null }])
  const all = [
    { id: 'branch', saved: { host: 'cart--shop.localhost', host_since: 1, tenant_id: 'a' } },
    { id: 'pull', saved: { host: 'shop-pr-1.localhost', host_since: 2, tenant_id: 'a', labels: alias } },
    { id: 'other', saved: { host: 'other.localhost', tenant_id: 'b', labels: alias } },
  ]
  expect([...labelOwnersOf(all)]).toEqual([
    ['other', 'other'],
    ['cart--shop', 'pull'],
    ['shop-pr-1', 'pull'],
  ])
  expect(savedLabels([{ label: 'cart--shop', revision_id: null }], [{ ...alias[0]!, since: 5 }])[0]!.since).toBe(5)
})
