// The keys of a command, as on a keyboard.
import styles from './keys.module.css'

export const Keys = ({ keys }: { keys: string }) => (
  <span class={styles.keys}>
    {keys.split(' ').map(key => (
      <kbd key={key}>{key.length === 1 ? key.toUpperCase() : key}</kbd>
    ))}
  </span>
)
