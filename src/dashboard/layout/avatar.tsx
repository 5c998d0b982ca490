// The picture of a workspace in the menu.
import styles from './shell.module.css'

/** The first letter of a workspace. */
export const Avatar = ({ name }: { name: string }) => (
  <span class={styles.avatar} aria-hidden="true">
    {[...name][0]?.toUpperCase()}
  </span>
)
