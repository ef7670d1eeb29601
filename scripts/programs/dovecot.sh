#!/usr/bin/env bash
# Dovecot: mailboxes over IMAP. Its processes keep only the environment that they are told to keep.
source "$(dirname "$0")/common.sh"

about() {
    find_commands dovecot dovecot-imapd python3 python3
    printf 'version: %s\n' "$(dovecot --version | sed 's/\([^ ]*\).*/dovecot \1/')"
    echo 'what: messages appended, searched, fetched, marked, moved and expunged over IMAP by' \
        '4 clients; reload by SIGHUP'
}

prepare() {
    local user=${SUDO_USER:-$(id -un)}
    [[ $(id -u) != 0 ]] || user=mail
    mkdir "$folder/mail"
    [[ $(id -u) != 0 ]] || chown "$user" "$folder/mail"
    cat > "$folder/conf" << END
base_dir = $folder/run
state_dir = $folder/run
log_path = $folder/log
protocols = imap
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = maildir:$folder/mail/%u
mail_uid = $user
first_valid_uid = 1
default_internal_user = $([[ $(id -u) == 0 ]] && echo dovecot || id -un)
default_login_user = $([[ $(id -u) == 0 ]] && echo dovenull || id -un)
import_environment = TZ LD_PRELOAD QUARRYLAB_WITNESS
passdb {
  driver = static
  args = nopassword=y
}
userdb {
  driver = static
  args = uid=$user gid=$user home=$folder/mail/%u
}
service auth {
  client_limit = 2000
}
service imap-login {
  chroot =
  service_count = 0
  process_min_avail = 1
  inet_listener imap {
    port = 10143
  }
  inet_listener imaps {
    port = 0
  }
}
service imap {
  service_count = 0
  process_min_avail = 2
  idle_kill = 10 mins
}
END
}

start() {
    rm -rf "$folder"/mail/* "$folder/run"
    mkdir "$folder/run"
    dovecot -F -c "$folder/conf" &
    server=$!
    await "$server" bash -c 'exec 3<> /dev/tcp/127.0.0.1/10143; read -r -u 3 line'
}

load() { python3 "$(dirname "$0")/imap.py" "$(amount 250 20)"; }

reload() {
    kill -HUP "$server"
    sleep 0.5
}

stop() { terminate dovecot; }

drive "$@"
