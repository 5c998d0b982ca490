// Tries the platforms of docs/operate/ without accounts: starts, probes, ports, addresses of clients, ends under load,
// read-only files.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { failed, findMissing, passed, runTrial, skipped } from '../support/trial.ts'
import { tryCloudRun } from './deploy/cloud-run.ts'
import { loadImage } from './deploy/containers.ts'
import { tryDenoDeploy } from './deploy/deno-deploy.ts'
import { tryFly } from './deploy/fly.ts'
import { tryMachine } from './deploy/machine.ts'
import { prepareInstallation } from './deploy/self-host.ts'

await runTrial(async () => {
  await using cleanup = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'slipway-deploy-'))
  // With root, Postgres and units run as other users, who have to reach their folders below it.
  chmodSync(folder, 0o755)
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 9 }))
  const installation = await prepareInstallation(cleanup, folder)
  passed('the commands of docs/operate/self-host.md make slipway.env and a key')

  const tryPlatform = (name: string, trial: () => Promise<void>) =>
    trial().catch((error: Error) => failed(`${name}: ${error.stack ?? error.message}`))
  await tryPlatform('Deno Deploy', () => tryDenoDeploy(folder, installation))
  await tryPlatform('a machine', () => tryMachine(folder, installation))
  const missing = findMissing('podman', 'runc', 'skopeo')
  if (missing) return skipped(`Fly and Cloud Run: ${missing}`)
  const image = await loadImage(cleanup, folder)
  await tryPlatform('Fly', () => tryFly(image, installation))
  await tryPlatform('Cloud Run', () => tryCloudRun(image, installation))
})
