// The four ways to begin, as links.
import { Icon, type IconName } from '../../parts/icon.tsx'
import { Link } from '../../router/links.tsx'
import { WAYS, type Way } from './draft.ts'
import styles from './new.module.css'

const TEXTS: Record<Way, { label: string; detail: string; icon: IconName }> = {
  template: { label: 'Template', detail: 'A sample application', icon: 'grid' },
  repository: { label: 'Repository', detail: 'Built on every push', icon: 'branch' },
  image: { label: 'Image', detail: 'Built and pushed elsewhere', icon: 'box' },
  folder: { label: 'Folder', detail: 'Files on this computer', icon: 'archive' },
}

export const WayLinks = ({ chosen }: { chosen?: Way }) => (
  <nav class={styles.ways} aria-label="Source">
    {WAYS.map(way => (
      <Link
        key={way}
        to={`/new?from=${way}`}
        {...(chosen && { replace: true })}
        aria-current={way === chosen ? 'true' : undefined}
      >
        <Icon name={TEXTS[way].icon} />
        <b>{TEXTS[way].label}</b>
        <span>{TEXTS[way].detail}</span>
      </Link>
    ))}
  </nav>
)
