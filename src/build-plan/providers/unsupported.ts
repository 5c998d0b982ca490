// Languages that are recognised, and that no provider builds.
import type { Folder } from '../source-files.ts'

const SIGNS: [language: string, sign: RegExp][] = [
  ['PHP', /^(composer\.json|index\.php|artisan)$/],
  ['.NET', /\.(cs|fs|vb)proj$|\.slnx?$/],
  ['Elixir', /^mix\.exs$/],
  ['Gleam', /^gleam\.toml$/],
  ['Swift', /^Package\.swift$/],
  ['Scala', /^build\.(sbt|sc)$/],
  ['Clojure', /^(project\.clj|deps\.edn)$/],
  ['Haskell', /\.cabal$|^stack\.yaml$/],
  ['C or C++', /^(CMakeLists\.txt|meson\.build)$/],
  ['Zig', /^build\.zig$/],
  ['Crystal', /^shard\.yml$/],
  ['Dart', /^pubspec\.yaml$/],
  ['OCaml', /^dune-project$/],
]

export function nameUnsupported(app: Folder): string | null {
  const names = app.names()
  for (const [language, sign] of SIGNS) {
    const file = names.find(name => sign.test(name))
    if (file !== undefined)
      return (
        `\`${file}\` is of ${language}, for which there is no provider. Add a Dockerfile and use a listener whose ` +
        'agent runs the container or kubernetes engine, or set the commands in slipway.json.'
      )
  }
  return null
}
