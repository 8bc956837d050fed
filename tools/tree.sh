# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash

# systemd's source with the queue in it: what tools/build builds and tools/patch makes a patch of. Sourced after
# common.sh.

# choose_tree VERSION DIR: set version, suite (of the distribution that has it), pristine (the source as it was) and tree
# (where all that is ours goes, in source/ below it the patched one), like (whose hooks it gets: the version that they are
# made for, or for one between two of these the lower). Of the distribution, or if DIR is not empty, of that source;
# VERSION may be empty.
choose_tree() {
    local source_dir=$2 source_version
    version=$1

    if [ -n "$source_dir" ]; then
        [ -e "$source_dir/src/udev/udevd.c" ] || fail_usage "--source '$source_dir' is not a tree of systemd"
        source_version=$(sed -n "/^project('systemd'/,/)/s/.*version : '\([0-9]*\).*/\1/p" "$source_dir/meson.build")
        [ -n "$source_version" ] || source_version=$(cat "$source_dir/meson.version" 2>/dev/null || true)
        # Stable releases are 257.13, say.
        source_version=${source_version%%[!0-9]*}
        [ -n "$source_version" ] || fail_usage "cannot find out which version of systemd '$source_dir' is"
        [ "${version:-$source_version}" = "$source_version" ] ||
            fail_usage "--systemd is '$version', but '$source_dir' is $source_version"
        version=$source_version
        pristine=$(realpath "$source_dir")
        tree=$BUILD/systemd-$version-$(basename "$pristine")
    else
        version=${version:-252}
        tree=$BUILD/systemd-$version
        pristine=$tree/pristine
    fi
    suite=
    case $version in
        252) suite=bookworm ;;
        257) suite=trixie ;;
        262) suite=forky ;;
        25[3-9] | 26[01]) ;;
        *) fail_usage "systemd '$version': not a version that the hooks are made for, these are 252, 257 and 262" ;;
    esac
    [ -n "$suite$source_dir" ] || fail_usage "systemd $version: no release of the distribution has it, it needs --source"
    like=252
    [ "$version" -lt 257 ] || like=257
    [ "$version" -lt 262 ] || like=262
}

# What each rule of hooks.cocci must have inserted, once (or N times in a file*N): the rule, in which file of 252, 257 and
# 262 (- for a rule that is for other versions), a text of its own.
hooks() {
    cat <<'END'
config_field     udevd.c             udev-manager.h       udev-config.h        ModuleConfig
config_file      udevd.c             -                    -                    module_config_read_file(&
config_table     -                   udevd.c              udev-config.c        config_parse_module_queue,
config_known     -                   shared/udev-util.c   shared/udev-util.c   "module_queue", NULL
config_cmdline   udevd.c             udevd.c              udev-config.c        if (module_config_read_cmdline(&
config_merge     -                   -                    udev-config.c        MERGE_NON_ZERO(module_config.mode,
config_changed   -                   -                    udev-config.c        if (!module_config_equal(
manager_field    udevd.c             udev-manager.h       udev-manager.h       struct ModuleDispatch *module_dispatch;
start            udevd.c             udev-manager.c       udev-manager.c       module_dispatch_start(&
adopt            -                   -                    udev-manager.c*2     module_dispatch_adopt_event(
reload           udevd.c             udev-manager.c       udev-manager.c       module_dispatch_reload(
configure        -                   -                    udev-manager.c       module_dispatch_configure(&
release          -                   -                    udev-manager.c       = module_dispatch_release(
busy             udevd.c             udev-manager.c       udev-manager.c       if (module_dispatch_is_busy(manager->module_dispatch))
loaders          udevd.c             udev-manager.c       udev-manager.c       if (module_dispatch_is_busy(manager->module_dispatch) ||
loaders_exit     -                   -                    udev-manager.c       || module_dispatch_is_busy(
stop             udevd.c             udev-manager.c       udev-manager.c       module_dispatch_stop(
free_dispatch    udevd.c             udev-manager.c       udev-manager.c*2     = module_dispatch_free(
enter_worker     udevd.c             udev-manager.c       udev-manager.c       = module_dispatch_enter_worker(
add_worker       udevd.c             udev-manager.c       udev-manager.c       module_dispatch_add_worker(
remove_worker    udevd.c             udev-manager.c       udev-manager.c       module_dispatch_remove_worker(
note_uevent      udevd.c             udev-manager.c       udev-manager.c       module_dispatch_note_uevent(
event_field      udevd.c             udev-manager.c       udev-manager.h       ModuleEvent module;
event_order      udevd.c             udev-manager.c       udev-manager.c       MODULE_DISPATCH_FOREACH_EVENT(manager->module_dispatch,
event_block      udevd.c             udev-manager.c       udev-manager.c       module_dispatch_block_event(
event_start      udevd.c             udev-manager.c       udev-manager.c       module_dispatch_start_event(
event_requeue    udevd.c             udev-manager.c       udev-manager.c*2     module_dispatch_requeue_event(
event_remove     udevd.c             udev-manager.c       udev-manager.c       module_dispatch_remove_event(
begin_event      udevd.c             udev-worker.c        udev-worker.c        module_client_begin_event(
trigger          -                   -                    udevadm-trigger.c    !module_queue_is_on() ? sd_device_trigger_with_uuid(
varlink          -                   -                    udev-varlink.c       module_varlink_add(
client_load      udev-builtin-kmod.c udev-builtin-kmod.c  udev-builtin-kmod.c  return module_client_load(
loader_context   udev-builtin-kmod.c udev-builtin-kmod.c  udev-builtin-kmod.c  struct kmod_ctx *module_loader_context(void)
before_run       udev-event.c        udev-spawn.c         udev-spawn.c         module_client_before_run(
after_run        udev-event.c        udev-spawn.c         udev-spawn.c         module_client_after_run(
verb             udevadm.c            udevadm.c            udevadm.c            module_queue_main
verb_help        udevadm.c            udevadm.c            -                    "See the queue of kernel modules"
include_verb     udevadm.c            udevadm.c            -                    #include "udevadm-module-queue.h"
include_trigger  -                    -                    udevadm-trigger.c    #include "udevadm-module-queue.h"
include_varlink  -                   -                    udev-varlink.c       #include "udev-module-varlink.h"
include_dispatch udevd.c             udev-manager.h       udev-manager.h       #include "udev-module-dispatch.h"
include_config   -                   -                    udev-config.h        #include "udev-module-config.h"
include_client   udev-event.c        udev-spawn.c         udev-spawn.c         #include "udev-module-client.h"
include_worker   udevd.c             udev-worker.c        udev-worker.c        #include "udev-module-client.h"
include_loader   udev-builtin-kmod.c udev-builtin-kmod.c  udev-builtin-kmod.c  #include "udev-module-loader.h"
END
}

# The same of this version: the rule, the file below src/, the text.
hooks_of_version() {
    local name in_252 in_257 in_262 text file

    while read -r name in_252 in_257 in_262 text; do
        file=in_$like
        file=${!file}
        case $file in
            -) ;;
            */*) echo "$name $file $text" ;;
            *) echo "$name udev/$file $text" ;;
        esac
    done < <(hooks)
}

# Leave the distribution's source package, with the distribution's patches, in $pristine.
get_source() {
    local dsc part found release

    dsc=$(find "$SOURCES" -maxdepth 1 -name "systemd_${version}[.~-]*.dsc" | sort -V | tail -n 1)
    if [ -z "$dsc" ]; then
        say "downloading the source of systemd $version"
        part=$SOURCES/partial-systemd-$version
        rm -rf "$part"
        mkdir -p "$part"
        release=(--suite "$suite")
        # The machine's own may be called otherwise there, stable say.
        ! grep -q "^VERSION_CODENAME=$suite$" /etc/os-release || release=()
        run_logged "$tree/download.log" apt_private "${release[@]}" apt-get update ||
            fail "cannot read the lists of source packages of $suite"
        found=$(apt_private "${release[@]}" apt-cache showsrc --only-source systemd 2>/dev/null |
                    sed -n 's/^Version: //p' | sort -Vu | xargs || true)
        dsc=$(tr ' ' '\n' <<<"$found" | grep "^${version}[.~-]" | tail -n 1 || true)
        if [ -z "$dsc" ]; then
            cat "$tree/download.log" >&2
            [ -z "$found" ] || fail "cannot download systemd $version: $suite has moved on to ${found// /, }"
            fail "cannot download systemd $version: the machine's apt sources have no $suite. Is there a network?"
        fi
        (
            cd "$part"
            run_logged "$tree/download.log" apt_private "${release[@]}" \
                apt-get source --download-only --only-source "systemd=$dsc"
        ) || fail "cannot download the source of systemd $dsc"
        # The .dsc last: where it is, everything is.
        find "$part" -type f ! -name '*.dsc' -exec mv -t "$SOURCES" {} +
        mv -t "$SOURCES" "$part"/*.dsc
        rmdir "$part"
        dsc=$(find "$SOURCES" -maxdepth 1 -name "systemd_${version}[.~-]*.dsc")
    fi

    say "unpacking $(basename "$dsc")"
    rm -rf "$pristine.part"
    run_logged "$tree/unpack.log" dpkg-source --no-copy --extract "$dsc" "$pristine.part" || fail "cannot unpack $dsc"
    mv "$pristine.part" "$pristine"
}

# Copy a file only if that changes anything, so that ninja builds only what must be built: update FROM TO
update() {
    cmp -s "$1" "$2" || install -D -m 644 "$1" "$2"
}

# Our parts of manual pages, by the pages: PAGE.xml, and PAGE+….xml if there are more of it.
man_pages() {
    (cd "$TOP/man" && printf '%s\n' *.xml | sed 's/+.*/.xml/' | sort -u)
}

# Our parts of manual pages into $tree/changed: each says in its second line where it goes, and begins below that.
patch_man() {
    local part page place term start end

    for part in "$TOP"/man/*.xml; do
        page=$(basename "$part" .xml)
        page=$tree/changed/man/${page%%+*}.xml
        read -r place term <<<"$(sed -n '2s/^<!-- goes behind the \(.*\) -->$/\1/p' "$part")"
        case $place in
            term) start="<varname>$term</varname>" end='' ;;
            entry) start="<varname>$term</varname>" end='</varlistentry>' ;;
            section) start="<title>$term" end='</refsect2>' ;;
            synopsis) start="<command>$term" end='</cmdsynopsis>' ;;
            *) fail "$part: does not say where it goes" ;;
        esac
        awk -v start="$start" -v end="$end" -v part="$part" '
            { print }
            index($0, start) { found = 1 }
            found && !n && (end == "" || index($0, end)) { while (getline <part > 0) if (++n > 2) print }
            END { exit !n }' "$page" >"$page.new" ||
            fail "$pristine/man/$(basename "$page"): cannot add our part, $term is not in it"
        mv "$page.new" "$page"
    done
}

# Our verb into $tree/changed/shell-completion: what completes it is in files of ours, and called from systemd's.
patch_completion() {
    local dir=$tree/changed/shell-completion own=$TOP/shell-completion

    awk -v part="$own/bash/udevadm-module-queue" '
        sub(/^    local verbs=\(info /, "&module-queue ") { n++ }
        /^_udevadm\(\) \{$/ { while (getline line <part > 0) if (++lines > 2) print line; print ""; n++ }
        { print }
        /^    case \$verb in$/ {
            print "        '"'module-queue'"')"
            print "            _udevadm_module_queue"
            print "            return 0"
            print "            ;;"
            print ""
            n++
        }
        END { exit n != 3 }' "$dir/bash/udevadm" >"$dir/bash/udevadm.new" ||
        fail "$pristine/shell-completion/bash/udevadm: cannot add our verb"
    mv "$dir/bash/udevadm.new" "$dir/bash/udevadm"

    # It calls _udevadm_VERB.
    awk -v part="$own/zsh/_udevadm-module-queue" '
        index($0, "(( $+functions[_udevadm_commands] ))") == 1 {
            while (getline line <part > 0) if (++lines > 2) print line
            n++
        }
        { print }
        /^    _udevadm_cmds=\($/ { print "        '"'module-queue:see the queue of kernel modules'"'"; n++ }
        END { exit n != 2 }' "$dir/zsh/_udevadm" >"$dir/zsh/_udevadm.new" ||
        fail "$pristine/shell-completion/zsh/_udevadm: cannot add our verb"
    mv "$dir/zsh/_udevadm.new" "$dir/zsh/_udevadm"
}

# Make $tree/source of $pristine, our files and the hooks. What differs is in $tree/changed, too.
patch_source() {
    local changed=$tree/changed file name hooked files sources text count times bad=0 excludes=(--exclude=/.git)
    local pages

    mapfile -t hooked < <(hooks_of_version | cut -d ' ' -f 2 | cut -d '*' -f 1 | sort -u)
    mapfile -t pages < <(man_pages)
    rm -rf "$changed"
    mkdir "$changed"
    (cd "$pristine" && cp --parents -t "$changed" "${hooked[@]/#/src/}" src/udev/{meson.build,udev.conf} rules.d/meson.build \
        shell-completion/{bash/udevadm,zsh/_udevadm} "${pages[@]/#/man/}")

    # One line with a blank between the file names is a group to spatch; rules look at one file at a time.
    printf 'src/%s\n\n' "${hooked[@]}" >"$tree/hooks.files"
    (
        cd "$changed"
        run_logged "$tree/hooks.log" spatch --very-quiet --no-includes --smpl-spacing --indent 8 \
            --macro-file-builtins "$TOP/src/udev/hooks-macros.h" --sp-file "$TOP/src/udev/hooks.cocci" \
            --in-place --file-groups ../hooks.files
    ) || fail "cannot apply $TOP/src/udev/hooks.cocci"
    # It prints an initializer in three lines, and no blank before a string.
    (
        cd "$changed/src"
        sed -i -E -e '/^ +\{$/{
            N
            N
            s/\{\n +NULL,("module_queue[^\n]*)\n +\}/{ NULL, \1 }/
            s/\{\n +("module-queue",) ?([^\n]*)\n +\}/{ \1 \2 }/
        }' -e 's/(sysattr_value\(d,)"/\1 "/' "${hooked[@]}"
    )

    # The verb of udevadm is a macro in later versions, which spatch does not read.
    sed -i '/^UDEVADM_VERB(verb_lock_main, /a\
VERB_SCOPE_FULL(, module_queue_main, "module-queue", "[OPTION…] [COMMAND] [FILE…]\\0", VERB_ANY, VERB_ANY, 0, 0,\
                "See the queue of kernel modules", NULL);' \
        "$changed/src/udev/udevadm.c"

    while read -r name file text; do
        times=1
        [[ $file != *'*'* ]] || times=${file#*'*'}
        file=${file%'*'*}
        count=$(grep -cF -e "$text" "$changed/src/$file" || true)
        if [ "$count" -ne "$times" ]; then
            printf '%s: error: hook %s: %s is %s times in src/%s, not %s\n' "$ME" "$name" "$text" "$count" "$file" "$times" >&2
            bad=1
        fi
    done < <(hooks_of_version)
    name=$(comm -3 <(hooks | cut -d ' ' -f 1 | sort -u) \
                   <(sed -nE 's/^@([a-z_]*[a-z])(_[0-9]+)?( .*)?@$/\1/p' "$TOP/src/udev/hooks.cocci" | sort -u) | tr -d '\t')
    if [ -n "$name" ]; then
        printf '%s: error: hook %s: is not both in hooks.cocci and in the list of tools/tree.sh\n' "$ME" "${name//$'\n'/, }" >&2
        bad=1
    fi
    [ "$bad" -eq 0 ] || fail "src/udev/hooks.cocci does not fit $pristine; nothing was built"

    cp "$TOP"/src/udev/udev{,adm}-module-*.[ch] "$changed/src/udev/"
    sources=$(cd "$TOP/src/udev" && printf "        '%s',\\\\n" udev-module-*.[ch])
    sed -i "s/^ *'udev-watch.c',\$/$sources&/" "$changed/src/udev/meson.build"
    [ "$(grep -c "'udev-module-" "$changed/src/udev/meson.build")" -eq "$(find "$TOP/src/udev" -name 'udev-module-*.[ch]' | wc -l)" ] ||
        fail "$pristine/src/udev/meson.build: cannot add our files, 'udev-watch.c' is not in it once"
    sed -i "s/^ *'udevadm-monitor.c',\$/        'udevadm-module-queue.c',\n&/" "$changed/src/udev/meson.build"
    [ "$(grep -c "'udevadm-module-queue.c'" "$changed/src/udev/meson.build")" -eq 1 ] ||
        fail "$pristine/src/udev/meson.build: cannot add our verb, 'udevadm-monitor.c' is not in it once"

    cp "$TOP/rules.d/79-module-queue.rules" "$changed/rules.d/"
    sed -i "s/^\( *\)'80-net-setup-link.rules',\$/\1'79-module-queue.rules',\n&/" "$changed/rules.d/meson.build"
    [ "$(grep -c "'79-module-queue.rules'" "$changed/rules.d/meson.build")" -eq 1 ] ||
        fail "$pristine/rules.d/meson.build: cannot add our rules, '80-net-setup-link.rules' is not in it once"

    printf '%s\n' '#module_queue=no' '#module_queue_loaders=' >>"$changed/src/udev/udev.conf"
    patch_man
    patch_completion

    mapfile -t files < <(changed_files)
    excludes+=("${files[@]/#/--exclude=/}")
    # A maintainer's tree may hold a repository and build directories.
    while read -r file; do
        excludes+=(--exclude="/$file")
    done < <(cd "$pristine" && find . -maxdepth 3 -name meson-private -printf '%P\n' | sed 's,/meson-private$,,')
    # By content, and with the time of now: an older file that comes back must be built again.
    rsync -rlp --checksum --delete "${excludes[@]}" "$pristine/" "$tree/source/"
    for file in "${files[@]}"; do
        update "$changed/$file" "$tree/source/$file"
    done
}

# The files that we change or add, by their paths in the source.
changed_files() {
    (cd "$tree/changed" && find . -type f -printf '%P\n' | sort)
}

# Only one of us works in the tree at a time; until this process ends.
lock_tree() {
    mkdir -p "$SOURCES" "$tree"
    { exec {lock}>"$tree/lock"; } 2>/dev/null || fail "cannot write to $tree"
    flock --nonblock "$lock" || { say "waiting for another tools/build"; flock "$lock"; }
}

# Make $tree/source, of what is there already or is downloaded.
make_source() {
    apt_install coccinelle dpkg-dev rsync
    [ -d "$pristine" ] || get_source
    patch_source
}
