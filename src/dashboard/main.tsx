// Starts the dashboard: a client of the public API, in the page that `src/dashboard/served/shell.ts` serves.
import { render } from 'preact'
import './styles/tokens.css'
import './styles/base.css'
import { App } from './app.tsx'

// The server has no files of an older build. Without a network the page stays: it may hold a draft.
addEventListener('vite:preloadError', () => navigator.onLine && location.reload())

render(<App />, document.getElementById('app')!)
