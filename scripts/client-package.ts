// Makes the npm package of the client, `@slipway/client`: one module without dependencies, its types, and a tarball.
// Run `npm run client:package`.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { buildSync } from 'esbuild'
import { printApi } from './client-types/print-api.ts'
import { license, ROOT, version, writeNpmPackage } from './npm-package.ts'

const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')
const folder = resolve(process.argv[2] ?? join(ROOT, 'dist/client'))
const read = (path: string) => fs.readFileSync(join(ROOT, path), 'utf8')

const { outputFiles, metafile } = buildSync({
  entryPoints: [join(ROOT, 'src/client/sdk.ts')],
  absWorkingDir: ROOT,
  bundle: true,
  platform: 'neutral',
  format: 'esm',
  target: 'es2022',
  metafile: true,
  write: false,
})

/** The declarations of the client, compiled against the printed types: these need no types of any package. */
function declareTypes(api: string): Record<string, string> {
  const work = fs.mkdtempSync(join(tmpdir(), 'slipway-client-'))
  try {
    fs.mkdirSync(join(work, 'client'))
    fs.writeFileSync(join(work, 'app.ts'), api)
    for (const path of Object.keys(metafile.inputs))
      fs.copyFileSync(join(ROOT, path), join(work, 'client', basename(path)))
    const compilerOptions = {
      target: 'ES2022',
      lib: ['ES2024', 'DOM', 'DOM.Iterable', 'DOM.AsyncIterable'],
      types: [],
      strict: true,
      module: 'ESNext',
      moduleResolution: 'Bundler',
      allowImportingTsExtensions: true,
      rootDir: '.',
      declaration: true,
      emitDeclarationOnly: true,
      exactOptionalPropertyTypes: true,
      outDir: 'types',
    }
    fs.writeFileSync(join(work, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['client/sdk.ts'] }))
    execFileSync(process.execPath, [TSC, '-p', work], { stdio: ['ignore', 2, 2] })
    const declarations = fs.readdirSync(join(work, 'types/client')).map(name => {
      const text = fs.readFileSync(join(work, 'types/client', name), 'utf8')
      const linked = text.replaceAll("'../app.ts'", "'./api.js'").replace(/(from '\.\/[\w-]+)\.ts'/g, "$1.js'")
      return [name === 'sdk.d.ts' ? 'index.d.ts' : name, linked]
    })
    return Object.fromEntries(declarations)
  } finally {
    fs.rmSync(work, { recursive: true, force: true })
  }
}

const api = await printApi(ROOT)
const declarations = declareTypes(api)
const manifest = {
  name: '@slipway/client',
  version,
  license,
  description: 'The client of the API of Slipway.',
  type: 'module',
  sideEffects: false,
  engines: { node: '>=20.3' },
  exports: { '.': { types: './index.d.ts', default: './index.js' } },
  files: ['*.js', '*.d.ts'],
}
const files = {
  ...declarations,
  'api.d.ts': api,
  'index.d.ts': `${declarations['index.d.ts']}export type * from './api.js'\n`,
  'index.js': outputFiles[0]!.contents,
  // Links to other pages lead nowhere outside of the repository.
  'README.md': read('docs/reference/client.md').replace(/\[([^\]]+)\]\((?!https?:)[^)]*\)/g, '$1'),
  LICENSE: read('LICENSE'),
}
console.log(`Install it in a project, also offline:
  npm install ${await writeNpmPackage(folder, { manifest, files })}`)
