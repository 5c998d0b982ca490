// Ruby with Bundler: Rails, Rack and plain programs.
import type { Proposal, Tool } from '../build-plan.ts'
import type { Folder } from '../source-files.ts'
import { findVersion } from '../versions.ts'

const PROGRAMS = ['app.rb', 'main.rb', 'server.rb']

export function proposeRuby(app: Folder): Proposal | null {
  const program = PROGRAMS.find(app.has)
  if (!app.has('Gemfile'))
    return program
      ? { tools: [findRuby(app)], start: `ruby ${program}`, certain: [`${program} is its program.`] }
      : null
  const isRails = app.has('config/application.rb')
  const hasAssets = isRails && /\b(?:sprockets|propshaft)\b/.test(app.read('Gemfile.lock') ?? app.read('Gemfile') ?? '')
  const common: Proposal = {
    tools: [findRuby(app)],
    install: 'bundle config set --local path vendor/bundle && bundle install',
    ...(hasAssets && { build: 'SECRET_KEY_BASE_DUMMY=1 bundle exec rails assets:precompile' }),
    ...(isRails && { env: { RAILS_ENV: 'production' } }),
    certain: [`Gemfile makes it a Ruby application${isRails ? ' of Rails' : ''}.`],
  }
  if (isRails) return { ...common, start: 'bundle exec rails server --binding 0.0.0.0 --port $PORT' }
  if (app.has('config.ru')) return { ...common, start: 'bundle exec rackup --host 0.0.0.0 --port $PORT' }
  if (program) return { ...common, start: `bundle exec ruby ${program}` }
  return { ...common, refusal: 'The Ruby application has neither config.ru nor app.rb. Add `web: …` to a Procfile.' }
}

function findRuby(app: Folder): Tool {
  const found = findVersion(app, 'ruby', ['.ruby-version'])
  if (found.version !== null) return found
  const [version] = linesOf(app, 'Gemfile').flatMap(line => /^ruby ["'](?:~> ?)?(\d[\d.]*)["']/.exec(line)?.[1] ?? [])
  if (version !== undefined) return { ...found, version, from: 'Gemfile' }
  // Below the heading RUBY VERSION. Gems are listed with brackets.
  const [locked] = linesOf(app, 'Gemfile.lock').flatMap(line => /^ruby (\d+\.\d+\.\d+)/.exec(line)?.[1] ?? [])
  return locked === undefined ? found : { ...found, version: locked, from: 'Gemfile.lock' }
}

const linesOf = (app: Folder, file: string) => (app.read(file) ?? '').split('\n').map(line => line.trim())
