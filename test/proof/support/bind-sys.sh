# Binds /sys into the folder of another machine. The folder that holds the cgroup hierarchies is a new one: a systemd
# would add its own to it, and make it read-only, for this machine too.
mount --rbind /sys sys
if [ "$(findmnt -no FSTYPE /sys/fs/cgroup)" = tmpfs ]; then
  mount -t tmpfs tmpfs sys/fs/cgroup
  for hierarchy in /sys/fs/cgroup/*/; do
    mkdir -p "sys/fs/cgroup/$(basename "$hierarchy")"
    mount --rbind "$hierarchy" "sys/fs/cgroup/$(basename "$hierarchy")"
  done
fi
